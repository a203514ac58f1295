#!/usr/bin/env python3
"""What a budget costs: GPT 4x256, batch 16 x 256, in a process of 200, 128 and 112 MiB, and 8 micro-batches against one.

    python3 test/benchmark/budget.py [--budgets 200 128 112] [--steps 3] [--rounds 11] [--venv PATH]

Each executable is one that --memory-budget chose. It runs in a memory cgroup of that size where one can be made. Times are CPU
seconds of the process for a step against the executable without a budget, in turn, in both orders, medians of the rounds; losses
are compared over the steps. Micro-batches: batch 32 x 256, so 1,024 tokens in each of 8.
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remat import BIN, EXPORT, ROOT, measure


@contextlib.contextmanager
def cgroup(mib):
    """A prefix of commands that makes them run in a cgroup of that size; empty where none can be made."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = f"{root}/scrimp-benchmark-{os.getpid()}"
        try:
            os.mkdir(folder)
            with open(f"{folder}/{limit}", "w") as f:
                f.write(str(mib << 20))
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            continue
        try:
            yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
        finally:
            os.rmdir(folder)
        return
    yield []


def train(folder, executable, steps, prefix=()):
    """(losses, peak bytes of the process)"""
    metrics = os.path.join(folder, "metrics.jsonl")
    data = [f"{n}={folder}/{n}.npy" for n in ("ids", "labels")]
    subprocess.run(
        [*prefix, executable, "--data", *data, "--steps", str(steps), "--threads", "2", "--metrics", metrics],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = [m for m in map(json.loads, open(metrics)) if "loss" in m]
    return [m["loss"] for m in found], found[-1]["peak_rss_bytes"]


def build(folder, name, *flags):
    executable = os.path.join(folder, name)
    result = subprocess.run(
        [f"{BIN}/scrimp-compile", f"{folder}/model.onnx", "-o", executable, "--workers", "2", *flags],
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    chosen = re.search(r"^  \* +(.*)$", result.stderr, re.MULTILINE)
    return executable, chosen[1] if chosen else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=int, nargs="*", default=[200, 128, 112])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    options = parser.parse_args()
    export = lambda folder, batch: (
        open(f"{folder}/export.py", "w").write(EXPORT),
        subprocess.run(
            [f"{options.venv}/bin/python", f"{folder}/export.py", f"{ROOT}/tools/scrimp-export", folder, "gpt", str(batch)],
            check=True,
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        export(folder, 16)
        whole, _ = build(folder, "whole")
        losses, peak = train(folder, whole, 4)
        print(f"GPT 4x256, batch 16 x 256, without a budget: process {peak / 2**20:.1f} MiB")
        for mib in options.budgets:
            executable, chosen = build(folder, f"in{mib}", "--memory-budget", f"{mib}MiB")
            with cgroup(mib) as prefix:
                found, peak = train(folder, executable, 4, prefix)
            distance = max(abs(a - b) / abs(a) for a, b in zip(losses, found))
            median, least, most = measure(folder, [whole, executable], options.steps, options.rounds)
            print(
                f"  {mib} MiB{' (enforced)' if prefix else ''}: {chosen}\n    process {peak / 2**20:.1f} MiB, losses within "
                f"{distance:.1e}, {median:.3f} of the CPU time ({least:.3f} to {most:.3f})",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder:
        export(folder, 32)
        whole, _ = build(folder, "whole")
        parts, _ = build(folder, "parts", "--micro-batches", "8")
        median, least, most = measure(folder, [whole, parts], options.steps, options.rounds)
        print(f"GPT 4x256, batch 32 x 256: 8 micro-batches {median:.3f} of the CPU time of one ({least:.3f} to {most:.3f})")


if __name__ == "__main__":
    main()
