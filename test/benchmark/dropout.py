#!/usr/bin/env python3
"""GPT-2 and BERT with their default dropout: what it costs in memory, and whether it learns as PyTorch's does.

    python3 test/benchmark/dropout.py [--venv PATH] [--skip-plans] [--seeds 8] [--steps 20]

Plans: activation bytes of GPT-2 124M (sequence 512 and 1024) and BERT-base (256 and 512), batch 4; twice the length takes
twice the bytes, as no tensor of scores is held. Losses: small models of both kinds (2 layers, width 64) from the same
weights on the same batches; the mean of the losses of the steps, over the seeds, beside PyTorch eager's, and without
dropout for scale.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from gpt2 import ROOT, find_python

MODELS = """
import importlib.machinery, importlib.util, json, sys
sys.dont_write_bytecode = True
import numpy, torch
import torch.nn.functional as F
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

def make(kind, small, drop=True, length=0):
    torch.manual_seed(0)
    if kind == "gpt2":
        size = dict(vocab_size=160, n_positions=32, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0) if small else {}
        off = {} if drop else dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return GPT2LMHeadModel(GPT2Config(use_cache=False, **size, **off)).train()
    size = dict(vocab_size=160, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                max_position_embeddings=32) if small else {}
    off = {} if drop else dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return BertForMaskedLM(BertConfig(use_cache=False, **size, **off)).train()
"""

EXPORT = MODELS + """
loader = importlib.machinery.SourceFileLoader("scrimp_export", sys.argv[1])
spec = importlib.util.spec_from_loader("scrimp_export", loader)
tool = importlib.util.module_from_spec(spec); loader.exec_module(tool)
path, kind, batch, length, small = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6] == "small"
ids = torch.randint(0, 160, (batch, length))
tool.export(make(kind, small), (ids, ids), path, loss="cross_entropy", input_names=["ids", "labels"], weights=small)
"""

TORCH = MODELS + """
torch.set_num_threads(1)
folder, kind, batch, steps, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
ids, labels = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")) for name in ("ids", "labels"))
def losses(seed, drop):
    model = make(kind, True, drop)
    torch.manual_seed(1000 + seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    result = []
    for step in range(steps):
        rows = slice(step * batch, (step + 1) * batch)
        loss = F.cross_entropy(model(ids[rows]).logits.flatten(0, 1), labels[rows].flatten())
        loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True)
        result.append(loss.item())
    return result
print(json.dumps({"dropout": [losses(seed, True) for seed in range(seeds)], "without": losses(0, False)}))
"""

DATA = """
import numpy, sys
random = numpy.random.default_rng(1)
count, length = int(sys.argv[2]), 32
walk = (random.integers(0, 160, (count, 1)) + numpy.cumsum(random.choice([1, 1, 1, 2, 5], size=(count, length + 1)), 1)) % 160
numpy.save(sys.argv[1] + "/ids.npy", walk[:, :-1]); numpy.save(sys.argv[1] + "/labels.npy", walk[:, 1:])
"""

BATCH = 8


def tool(name):
    return os.path.join(ROOT, "build", "bin", name)


def export(python, path, kind, batch, length, size):
    subprocess.run([python, "-c", EXPORT, os.path.join(ROOT, "tools", "scrimp-export"), path, kind, str(batch),
                    str(length), size], check=True)


def plans(python, folder):
    print(f"{'':6} {'length':>6} {'arena MiB':>10} {'activations MiB':>16}")
    for kind, lengths in (("gpt2", (512, 1024)), ("bert", (256, 512))):
        held = []
        for length in lengths:
            path = os.path.join(folder, f"{kind}{length}.onnx")
            export(python, path, kind, 4, length, "full")
            report = path + ".json"
            subprocess.run([tool("scrimp-plan"), path, "--report", report, "--quiet"], check=True)
            plan = json.load(open(report))
            held.append(plan["segments"]["activations"])
            print(f"{kind:6} {length:6} {plan['peak_bytes'] / 2**20:10.1f} {held[-1] / 2**20:16.1f}", flush=True)
        print(f"{kind:6} {'ratio':>6} {'':10} {held[1] / held[0]:16.3f}")


def losses(python, folder, seeds, steps):
    subprocess.run([python, "-c", DATA, folder, str(BATCH * steps)], check=True)
    print(f"{'':6} {'scrimp':>9} {'PyTorch':>9} {'difference':>11} {'standard error':>15} {'without dropout':>16}")
    for kind in ("gpt2", "bert"):
        path, train = os.path.join(folder, f"{kind}.onnx"), os.path.join(folder, kind)
        export(python, path, kind, BATCH, 32, "small")
        subprocess.run([tool("scrimp-compile"), path, "-o", train, "--quiet"], check=True)
        ours = []
        for seed in range(seeds):
            metrics = os.path.join(folder, f"{kind}.{seed}.jsonl")
            subprocess.run([train, "--data", f"ids={folder}/ids.npy", "--data", f"labels={folder}/labels.npy", "--lr",
                            "1e-3", "--no-shuffle", "--steps", str(steps), "--seed", str(seed), "--metrics", metrics],
                           check=True, stdout=subprocess.DEVNULL)
            ours.append(statistics.mean(json.loads(line)["loss"] for line in open(metrics)))
        told = json.loads(subprocess.run([python, "-c", TORCH, folder, kind, str(BATCH), str(steps), str(seeds)],
                                         check=True, stdout=subprocess.PIPE, text=True).stdout)
        theirs = [statistics.mean(run) for run in told["dropout"]]
        error = (statistics.variance(ours) / seeds + statistics.variance(theirs) / seeds) ** 0.5
        difference = statistics.mean(ours) - statistics.mean(theirs)
        print(f"{kind:6} {statistics.mean(ours):9.5f} {statistics.mean(theirs):9.5f} {difference:11.5f} {error:15.5f} "
              f"{statistics.mean(told['without']):16.5f}", flush=True)
        if abs(difference) > 3 * error:
            raise SystemExit(f"{kind}: the losses are more than 3 standard errors apart")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    parser.add_argument("--skip-plans", action="store_true")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    python = find_python(arguments.venv)
    with tempfile.TemporaryDirectory() as folder:
        losses(python, folder, arguments.seeds, arguments.steps)
        if not arguments.skip_plans:
            plans(python, folder)


if __name__ == "__main__":
    main()
