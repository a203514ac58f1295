"""Runs what the tests of this folder run on the CPU, on an emulated device: every kernel, thread by thread, beside the
interpreter.

usage: emulated.py FOLDER ORDER      ORDER: of the threads of a block: forward, reverse or shuffled"""
import os
import re
import subprocess
import sys

folder, order = sys.argv[1:]
environment = dict(os.environ, SCRIMP_EMULATED_ORDER=order)
ran = failed = 0
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    if not name.endswith(".mlir"):
        continue
    for line in re.findall(r"RUN: (.*)", open(path).read()):
        command = line.split("| FileCheck")[0].replace("%s", path).replace("%S", folder).strip()
        if "scrimp-kernel-test" not in command or "--emit" in command or command.startswith("not ") or "%" in command:
            continue
        command = command.replace("scrimp-kernel-test", "scrimp-kernel-test --target emulated")
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
        ran += 1
        if done.returncode:
            failed += 1
            print(command, done.stdout, done.stderr, sep="\n")
print(f"{ran} runs, {failed} failed")
sys.exit(failed > 0 or ran < 30)
