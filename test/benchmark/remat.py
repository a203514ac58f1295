#!/usr/bin/env python3
"""What rematerialization costs: GPT 4x256 (batch 16 x 256) and BERT-base (8 x 128, or --batch) at .63 and .5 of what
layers keep for the backward pass.

    python3 test/benchmark/remat.py [--models gpt bert] [--steps 3] [--rounds 11] [--venv PATH]

For each share the cheapest plan is taken of --remat selective, min-cut and a family of tradeoff prices, by the compiler's own
account of what is kept. Then executables with it and without run in turn, in both orders; times are CPU seconds of the process
for a step (those of a run of few steps are taken off), medians of the rounds. Also prints peaks and, for full, the work.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
BIN = os.path.join(ROOT, "build", "bin")

EXPORT = """
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
import numpy, torch, transformers
loader = importlib.machinery.SourceFileLoader("scrimp_export", sys.argv[1])
spec = importlib.util.spec_from_loader("scrimp_export", loader)
tool = importlib.util.module_from_spec(spec); loader.exec_module(tool)
torch.manual_seed(0)
folder, name, batch = sys.argv[2], sys.argv[3], int(sys.argv[4])
if name == "gpt":
    length, vocabulary = 256, 8192
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=vocabulary,
        n_positions=length, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
else:
    length, vocabulary = 128, 30522
    model = transformers.BertForMaskedLM(transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
ids = torch.randint(0, vocabulary, (batch, length))
tool.export(model.train(), (ids, ids), folder + "/model.onnx", loss="cross_entropy", input_names=["ids", "labels"])
data = torch.randint(0, vocabulary, (batch * 8, length)).numpy()
numpy.save(folder + "/ids.npy", data); numpy.save(folder + "/labels.npy", data)
"""


def plan(folder, policy):
    report = os.path.join(folder, "plan.json")
    subprocess.run(
        [os.path.join(BIN, "scrimp-plan"), os.path.join(folder, "model.onnx"), "--quiet", "--remat", policy, "--report", report],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = json.load(open(report))
    found["kept"] = sum(r["bytes"] for r in found["residuals"])
    found["head"] = sum(r["bytes"] for r in found["residuals"] if not re.search(r"(^|[./])[0-9]+[./]", r["name"]))
    found["transient"] = sum(found["segments"][s] for s in ("gradients", "activations", "workspace"))
    return found


def add_price(folder, plans, share):
    """The lowest price per byte, to a thousandth, at which a tradeoff keeps at most that share of the layers' bytes."""
    low, high = 1e-12, 1e-6
    for _ in range(24):
        price = (low * high) ** 0.5
        found = plan(folder, f"tradeoff={price:.5g}")
        if share_of(found, plans) <= share * 1.0005:
            high, plans[f"tradeoff={price:.5g}"] = price, found
        else:
            low = price


def share_of(found, plans):
    """Of what `none` keeps of layers; what embeddings and head leave (logits) is no layer's."""
    return (found["kept"] - found["head"]) / (plans["none"]["kept"] - plans["none"]["head"])


def cpu_seconds(executable, folder, steps):
    data = [os.path.join(folder, f"{n}.npy") for n in ("ids", "labels")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [executable, "--data", f"ids={data[0]}", f"labels={data[1]}", "--steps", str(steps), "--threads", "2"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder, executables, steps, rounds):
    """Ratios of the CPU time of a step, the second executable to the first."""
    ratios = []
    for i in range(rounds):
        order = executables if i % 2 == 0 else executables[::-1]
        seconds = {}
        for executable in order:
            seconds[executable] = (cpu_seconds(executable, folder, 1 + steps) - cpu_seconds(executable, folder, 1)) / steps
        ratios.append(seconds[executables[1]] / seconds[executables[0]])
    return statistics.median(ratios), min(ratios), max(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["gpt", "bert"], choices=["gpt", "bert"])
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.63, 0.5])
    parser.add_argument("--bin", default=BIN, help="where the tools are")
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    options = parser.parse_args()
    globals()["BIN"] = options.bin
    python = os.path.join(options.venv, "bin", "python")
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            batch = options.batch or (16 if name == "gpt" else 8)
            script = os.path.join(folder, "export.py")
            open(script, "w").write(EXPORT)
            subprocess.run([python, script, os.path.join(ROOT, "tools", "scrimp-export"), folder, name, str(batch)], check=True)
            plans = {p: plan(folder, p) for p in ["none", "selective", "min-cut", "full"]}
            for share in options.shares:
                add_price(folder, plans, share)
            base = plans["none"]
            work = base["flops"]["forward"] + base["flops"]["backward"]
            print(f"{name}, batch {batch}: keeps {base['kept'] / 2**20:.1f} MiB, step {base['transient'] / 2**20:.1f} MiB")
            for policy, found in plans.items():
                print(
                    f"  {policy:20} of the layers' bytes {share_of(found, plans):.3f}, step's memory {found['transient'] / base['transient']:.3f}, "
                    f"work {1 + found['flops']['recompute'] / work:.3f}"
                )
            executables = {}

            def build(policy):
                if policy not in executables:
                    executables[policy] = os.path.join(folder, f"train{len(executables)}")
                    subprocess.run(
                        [os.path.join(BIN, "scrimp-compile"), os.path.join(folder, "model.onnx"), "--quiet", "--remat", policy]
                        + ["-o", executables[policy]],
                        check=True,
                    )
                return executables[policy]

            for share in options.shares:
                fitting = [p for p in plans if share_of(plans[p], plans) <= share * 1.0005]
                policy = min(fitting, key=lambda p: (plans[p]["flops"]["recompute"], plans[p]["kept"]))
                median, least, most = measure(folder, [build("none"), build(policy)], options.steps, options.rounds)
                print(
                    f"  at {share}: {policy}, {share_of(plans[policy], plans):.3f} of the layers' bytes: {median:.3f} of the CPU time "
                    f"({least:.3f} to {most:.3f})"
                )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
