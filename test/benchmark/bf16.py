#!/usr/bin/env python3
"""A bf16 step beside the fp32 step and beside PyTorch's bf16 autocast, on two threads each.

    python3 test/benchmark/bf16.py [--model gpt4x256|gpt2] [--rounds 11] [--steps 3] [--venv PATH] [--keep FOLDER]

Exports the model, compiles it in fp32 and in bf16, with and without the processor's own products of bf16 (--march native and
x86-64-v4), and takes turns: in every round each program runs `steps` steps, in the opposite order in every second round.
Prints seconds of process CPU time and of wall time per step (medians), process memory beside the arena, and the ratios, each
the median over rounds of the ratio within a round. A program's start, which is its run of one step, is taken off.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
MODELS = {
    "gpt4x256": (dict(n_layer=4, n_embd=256, n_head=4, vocab_size=8192, n_positions=256), 16, 256),
    "gpt2": ({}, 4, 64),
}

COMMON = """
import importlib.machinery, importlib.util, json, sys, time
sys.dont_write_bytecode = True
import numpy, torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(2)
torch.manual_seed(0)
config = GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **json.loads(sys.argv[1]))
model = GPT2LMHeadModel(config).train()
"""

EXPORT = COMMON + """
loader = importlib.machinery.SourceFileLoader("scrimp_export", sys.argv[2])
spec = importlib.util.spec_from_loader("scrimp_export", loader)
tool = importlib.util.module_from_spec(spec); loader.exec_module(tool)
batch, sequence = int(sys.argv[4]), int(sys.argv[5])
ids = torch.randint(0, config.vocab_size, (batch, sequence))
tool.export(model, (ids, ids), sys.argv[3] + "/model.onnx", loss="cross_entropy", input_names=["ids", "labels"])
data = torch.randint(0, config.vocab_size, (batch * 8, sequence + 1)).numpy()
numpy.save(sys.argv[3] + "/ids.npy", data[:, :-1]); numpy.save(sys.argv[3] + "/labels.npy", data[:, 1:])
"""

# Waits for a line, runs so many steps, tells CPU and wall seconds of each on average.
TORCH = COMMON + """
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids, labels = (torch.from_numpy(numpy.load(f"{sys.argv[2]}/{name}.npy")) for name in ("ids", "labels"))
batch, at = int(sys.argv[3]), 0
def step():
    global at
    rows = slice(at, at + batch)
    at = (at + batch) % len(ids)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(ids[rows]).logits.flatten(0, 1), labels[rows].flatten())
    loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True)
    return loss.item()
step(); step()
print("ready", flush=True)
for line in sys.stdin:
    steps = int(line)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        loss = step()
    print(json.dumps([(time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps, loss]), flush=True)
"""


class Torch:
    def __init__(self, python, config, folder, batch):
        self.process = subprocess.Popen(
            [python, "-c", TORCH, json.dumps(config), folder, str(batch)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())[:2]


class Scrimp:
    def __init__(self, name, folder, *flags):
        self.train, self.folder = os.path.join(folder, name), folder
        report = self.train + ".json"
        subprocess.run([os.path.join(ROOT, "build", "bin", "scrimp-compile"), os.path.join(folder, "model.onnx"), "-o",
                        self.train, "--workers", "2", "--report", report, "--quiet", *flags], check=True)
        self.report = json.load(open(report))
        self.start = self.measure(1)

    def measure(self, steps):
        metrics = self.train + ".jsonl"
        if os.path.exists(metrics):
            os.remove(metrics)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        subprocess.run([self.train, "--data", f"ids={self.folder}/ids.npy", "--data", f"labels={self.folder}/labels.npy",
                        "--no-shuffle", "--steps", str(steps), "--threads", "2", "--lr", "1e-4", "--metrics", metrics],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        last = [json.loads(line) for line in open(metrics)][-1]
        self.peak = last["peak_rss_bytes"]
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)

    def run(self, steps):
        return [(more - start) / steps for more, start in zip(self.measure(steps + 1), self.start)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="gpt4x256")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    parser.add_argument("--keep", help="folder for the model, the data and the executables")
    arguments = parser.parse_args()
    python = os.path.join(arguments.venv, "bin", "python")
    config, batch, sequence = MODELS[arguments.model]
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or scratch
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(os.path.join(folder, "labels.npy")):
            subprocess.run([python, "-c", EXPORT, json.dumps(config), os.path.join(ROOT, "tools", "scrimp-export"), folder,
                            str(batch), str(sequence)], check=True, stdout=subprocess.DEVNULL)
        programs = {
            "fp32": Scrimp("fp32", folder),
            "bf16": Scrimp("bf16", folder, "--precision", "bf16"),
            "fp32, x86-64-v4": Scrimp("fp32v4", folder, "--march", "x86-64-v4"),
            "bf16, x86-64-v4": Scrimp("bf16v4", folder, "--precision", "bf16", "--march", "x86-64-v4"),
        }
        ours = list(programs.values())
        programs["PyTorch autocast"] = Torch(python, config, folder, batch)
        rounds = []
        for number in range(arguments.rounds):
            names = list(programs) if number % 2 == 0 else list(programs)[::-1]
            rounds.append({name: programs[name].run(arguments.steps) for name in names})
            print(f"round {number + 1}: " + ", ".join(f"{n} {r[0]:.3f}" for n, r in rounds[-1].items()), file=sys.stderr)
        programs["PyTorch autocast"].process.stdin.close()
    print(f"{arguments.model}, batch {batch} x {sequence}, {arguments.rounds} rounds of {arguments.steps} steps")
    print(f"{'':18} {'CPU s/step':>10} {'wall s/step':>11} {'arena MiB':>10} {'process - arena':>15}  16-bit products")
    for name, program in programs.items():
        times = [statistics.median(r[name][i] for r in rounds) for i in (0, 1)]
        memory = ""
        if program in ours:
            arena = program.report["peak_bytes"]
            memory = f"{arena / 2**20:10.1f} {(program.peak - arena) / 2**20:15.1f}  " + program.report.get(
                "products_of_16_bits", "")
        print(f"{name:18} {times[0]:10.3f} {times[1]:11.3f} {memory}")
    for a, b in (("bf16", "PyTorch autocast"), ("bf16", "fp32"), ("bf16, x86-64-v4", "fp32, x86-64-v4")):
        cpu, wall = (statistics.median(r[a][i] / r[b][i] for r in rounds) for i in (0, 1))
        print(f"{a} / {b}: CPU {cpu:.3f}, wall {wall:.3f}")


if __name__ == "__main__":
    main()
