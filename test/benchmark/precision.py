#!/usr/bin/env python3
"""Mixed precision: how far losses are from those of fp32, beside PyTorch's autocast, and what activations take.

    python3 test/benchmark/precision.py [--venv PATH] [--steps 200] [--skip-plans] [--skip-losses]

Losses: the GPT of tools/quickstart (4 layers of 128, over bytes) on the licence texts of Debian, from the same weights on
the same batches: mean of |loss - fp32 loss| over the steps, each against the fp32 of its own kind.
Plans: bytes of activations per layer and sample: what 6 layers and 4 samples more add beside what each alone does, so that
embeddings, logits and copies of weights do not count. bf16 beside fp32.
"""
import argparse
import json
import os
import subprocess
import tempfile

from gpt2 import ROOT, find_python

TOOL = """
import importlib.machinery, importlib.util, json, sys
sys.dont_write_bytecode = True
import numpy, torch
import torch.nn.functional as F
loader = importlib.machinery.SourceFileLoader("scrimp_export", sys.argv[1])
spec = importlib.util.spec_from_loader("scrimp_export", loader)
tool = importlib.util.module_from_spec(spec); loader.exec_module(tool)
"""

GPT = TOOL + """
from transformers import GPT2Config, GPT2LMHeadModel
def make():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=128, n_embd=128, n_layer=4, n_head=4, use_cache=False,
                                      initializer_range=0.08, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).train()
folder, batch, steps = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
"""

EXPORT = GPT + """
import glob
text = numpy.concatenate([numpy.fromfile(f, "u1") for f in sorted(glob.glob("/usr/share/common-licenses/*"))])
starts = numpy.random.default_rng(0).integers(0, len(text) - 129, batch * steps)
rows = numpy.stack([text[s:s + 129] for s in starts]).astype("i8")
numpy.save(folder + "/ids.npy", rows[:, :-1]); numpy.save(folder + "/labels.npy", rows[:, 1:])
ids = torch.zeros(batch, 128, dtype=torch.int64)
tool.export(make(), (ids, ids), folder + "/gpt.onnx", loss="cross_entropy", input_names=["ids", "labels"])
"""

TRAIN = GPT + """
torch.set_num_threads(2)
ids, labels = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")) for name in ("ids", "labels"))
def losses(dtype):
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    result = []
    for step in range(steps):
        rows = slice(step * batch, (step + 1) * batch)
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = F.cross_entropy(model(ids[rows]).logits.flatten(0, 1), labels[rows].flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer); scaler.update(); optimizer.zero_grad(set_to_none=True)
        result.append(loss.item())
    return result
print(json.dumps({"fp32": losses(None), "bf16": losses(torch.bfloat16), "fp16": losses(torch.float16)}))
"""

LAYERS = TOOL + """
import transformers as t
path, kind, layers = sys.argv[2], sys.argv[3], int(sys.argv[4])
ids = torch.zeros(2, 128, dtype=torch.int64)
off = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
quiet = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
if kind == "gpt2":
    model = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False, n_layer=layers, **off))
elif kind == "bert":
    model = t.BertForMaskedLM(t.BertConfig(use_cache=False, num_hidden_layers=layers, **quiet))
elif kind == "llama":
    model = t.LlamaForCausalLM(t.LlamaConfig(use_cache=False, num_hidden_layers=layers, hidden_size=512, vocab_size=16384,
                                             intermediate_size=1408, num_attention_heads=8, num_key_value_heads=4))
else:
    model = t.ViTForImageClassification(t.ViTConfig(num_hidden_layers=layers, num_labels=10, **quiet))
inputs = (torch.zeros(2, 3, 224, 224), torch.zeros(2, dtype=torch.int64)) if kind == "vit" else (ids, ids)
tool.export(model.train(), inputs, path, loss="cross_entropy", dynamic_batch=True, weights=False)
"""

BATCH = 8


def tool(name):
    return os.path.join(ROOT, "build", "bin", name)


def python_run(python, code, *arguments):
    return subprocess.run([python, "-c", code, os.path.join(ROOT, "tools", "scrimp-export"), *map(str, arguments)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def losses(python, folder, steps):
    python_run(python, EXPORT, folder, BATCH, steps)
    ours, theirs = {}, json.loads(python_run(python, TRAIN, folder, BATCH, steps))
    for precision in ("fp32", "bf16", "fp16"):
        train, metrics = os.path.join(folder, precision), os.path.join(folder, precision + ".jsonl")
        subprocess.run([tool("scrimp-compile"), f"{folder}/gpt.onnx", "-o", train, "--quiet", "--precision", precision],
                       check=True)
        subprocess.run([train, "--data", f"ids={folder}/ids.npy", f"labels={folder}/labels.npy", "--no-shuffle",
                        "--steps", str(steps), "--threads", "2", "--metrics", metrics], check=True,
                       stdout=subprocess.DEVNULL)
        ours[precision] = [json.loads(line)["loss"] for line in open(metrics)]
    distance = lambda runs, name: sum(abs(a - b) for a, b in zip(runs[name], runs["fp32"])) / steps
    print(f"{'':6} {'scrimp':>9} {'autocast':>9} {'ratio':>6}   (fp32 loss {ours['fp32'][0]:.3f} to {ours['fp32'][-1]:.3f},"
          f" PyTorch's {theirs['fp32'][-1]:.3f})")
    for name in ("bf16", "fp16"):
        print(f"{name:6} {distance(ours, name):9.6f} {distance(theirs, name):9.6f} "
              f"{distance(ours, name) / distance(theirs, name):6.2f}", flush=True)


def plans(python, folder):
    print(f"{'':6} {'fp32 MiB':>9} {'bf16 MiB':>9} {'ratio':>7}   of activations per layer and sample")
    for kind in ("gpt2", "bert", "vit", "llama"):
        held = {}
        for layers in (6, 12):
            path = os.path.join(folder, f"{kind}{layers}.onnx")
            python_run(python, LAYERS, path, kind, layers)
            for precision in ("fp32", "bf16"):
                for batch in (4, 8):
                    report = path + ".json"
                    subprocess.run([tool("scrimp-plan"), path, "--report", report, "--quiet", "--dim", f"batch={batch}",
                                    "--precision", precision], check=True, stdout=subprocess.DEVNULL)
                    held[precision, layers, batch] = json.load(open(report))["segments"]["activations"]
        of = {p: (held[p, 12, 8] - held[p, 12, 4] - held[p, 6, 8] + held[p, 6, 4]) / 24 for p in ("fp32", "bf16")}
        print(f"{kind:6} {of['fp32'] / 2**20:9.3f} {of['bf16'] / 2**20:9.3f} {of['bf16'] / of['fp32']:7.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--skip-plans", action="store_true")
    parser.add_argument("--skip-losses", action="store_true")
    arguments = parser.parse_args()
    python = find_python(arguments.venv)
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.skip_losses:
            losses(python, folder, arguments.steps)
        if not arguments.skip_plans:
            plans(python, folder)


if __name__ == "__main__":
    main()
