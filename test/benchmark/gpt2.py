#!/usr/bin/env python3
"""GPT-2 124M, batch 4, sequence 64, AdamW, fp32: Scrimp's executable beside PyTorch eager, in one run.

    python3 test/benchmark/gpt2.py [--steps 10] [--venv PATH] [--smallest]

--smallest: batch 32, sequence 256 in 32 micro-batches, every block recomputed (PyTorch: gradient checkpointing), and
once more in bf16 with nothing kept in fp32.

Makes a virtual environment with PyTorch if it is not given one that has it (3 minutes, 5.8 GB), exports the model,
compiles it, and runs the two in turn on two threads each. Prints step times (best and median), peak RSS, and ratios
taken in this run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PACKAGES = ["torch==2.15.0", "transformers==5.24.0", "onnx==1.23.2", "onnxscript==0.7.2", "safetensors", "numpy"]
BF16 = ["--precision", "bf16", "--master", "none", "--moments", "bf16", "--accumulate", "bf16"]

EXPORT = """
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
import numpy, torch
from transformers import GPT2Config, GPT2LMHeadModel
loader = importlib.machinery.SourceFileLoader("scrimp_export", sys.argv[1])
spec = importlib.util.spec_from_loader("scrimp_export", loader)
tool = importlib.util.module_from_spec(spec); loader.exec_module(tool)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).train()
batch, sequence, steps = int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
ids = torch.randint(0, 50257, (batch, sequence))
tool.export(model, (ids, ids), sys.argv[2] + "/gpt2.onnx", loss="cross_entropy", input_names=["ids", "labels"])
data = torch.randint(0, 50257, (batch * steps, sequence + 1)).numpy()
numpy.save(sys.argv[2] + "/ids.npy", data[:, :-1]); numpy.save(sys.argv[2] + "/labels.npy", data[:, 1:])
"""

TORCH = """
import json, resource, sys, time
import numpy, torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(2)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.from_numpy(numpy.load(sys.argv[1] + "/ids.npy")); labels = torch.from_numpy(numpy.load(sys.argv[1] + "/labels.npy"))
batch, steps, pieces = (int(a) for a in sys.argv[2:])
if pieces > 1:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
out = []
for step in range(steps):
    begin = time.perf_counter()
    total = 0.0
    for piece in range(pieces):
        first = step * batch + piece * batch // pieces
        rows = slice(first, first + batch // pieces)
        loss = F.cross_entropy(model(ids[rows]).logits.flatten(0, 1), labels[rows].flatten()) / pieces
        loss.backward()
        total += loss.item()
    optimizer.step(); optimizer.zero_grad(set_to_none=True)
    out.append({"loss": total, "seconds": time.perf_counter() - begin})
print(json.dumps({"steps": out, "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def find_python(venv):
    python = os.path.join(venv, "bin", "python")
    has_torch = os.path.exists(python) and subprocess.run([python, "-c", "import torch, transformers, onnxscript"],
                                                          capture_output=True).returncode == 0
    if not has_torch:
        print(f"making {venv} with {' '.join(PACKAGES)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def run_scrimp(folder, steps, flags):
    """The metrics of each step."""
    train, metrics = os.path.join(folder, "train"), os.path.join(folder, "metrics.jsonl")
    subprocess.run([os.path.join(ROOT, "build", "bin", "scrimp-compile"), os.path.join(folder, "gpt2.onnx"), "-o", train,
                    "--workers", "2", "--quiet", *flags], check=True)
    if os.path.exists(metrics):
        os.remove(metrics)
    subprocess.run([train, "--data", f"ids={folder}/ids.npy", "--data", f"labels={folder}/labels.npy", "--no-shuffle",
                    "--steps", str(steps), "--threads", "2", "--lr", "1e-4", "--metrics", metrics], check=True)
    return [json.loads(line) for line in open(metrics)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--smallest", action="store_true")
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    parser.add_argument("--keep", help="folder for the model, the data and the executable")
    arguments = parser.parse_args()
    python = find_python(arguments.venv)
    batch, sequence, pieces = (32, 256, 32) if arguments.smallest else (4, 64, 1)
    flags = ["--micro-batches", "32", "--remat", "full"] if arguments.smallest else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or scratch
        os.makedirs(folder, exist_ok=True)
        subprocess.run([python, "-c", EXPORT, os.path.join(ROOT, "tools", "scrimp-export"), folder, str(batch), str(sequence),
                        str(arguments.steps)], check=True)
        runs = [("scrimp", run_scrimp(folder, arguments.steps, flags))]
        if arguments.smallest:
            runs.append(("scrimp bf16", run_scrimp(folder, arguments.steps, flags + BF16)))
        theirs = json.loads(subprocess.run([python, "-c", TORCH, folder, str(batch), str(arguments.steps), str(pieces)],
                                           check=True, capture_output=True, text=True).stdout)
    rows = []
    for name, steps, peak in [(name, steps, steps[-1]["peak_rss_bytes"]) for name, steps in runs] + [
        ("torch eager", theirs["steps"], theirs["peak_rss_bytes"])
    ]:
        seconds = [step["seconds"] for step in steps[1:]]
        rows.append((name, min(seconds), statistics.median(seconds), peak / 2**20, steps[-1]["loss"]))
    print(f"{'':12} {'best s':>8} {'median s':>9} {'peak MiB':>9} {'last loss':>10}")
    for name, best, median, peak, loss in rows:
        print(f"{name:12} {best:8.3f} {median:9.3f} {peak:9.0f} {loss:10.5f}")
    for name, best, median, peak, _ in rows[:-1]:
        print(f"{name + ' ratio':18} {best / rows[-1][1]:8.2f} {median / rows[-1][2]:9.2f} {peak / rows[-1][3]:9.2f}")


if __name__ == "__main__":
    main()
