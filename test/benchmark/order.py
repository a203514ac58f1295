#!/usr/bin/env python3
"""Whether the cost model orders candidates as the machine does: GPT 4x256, batch 16 x 256.

    python3 test/benchmark/order.py [--most 12] [--steps 2] [--rounds 5] [--batch 16] [--bin PATH] [--venv PATH]

Compiles the candidates that `scrimp-plan --pareto` prints, at most so many, spread over the front, and measures CPU seconds of a
step of each, in turns that run forth and back; medians of the rounds. Of the pairs whose measured times differ by 10% or more,
counts those that the estimates order alike, and names the others. Exits with 1 if there are any.
"""
import argparse
import itertools
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remat import BIN, EXPORT, ROOT, cpu_seconds


def candidates(tools, model):
    """[(seconds, MiB, flags)] of the front, fastest first."""
    text = subprocess.run(
        [f"{tools}/scrimp-plan", model, "--quiet", "--workers", "2", "--pareto", os.devnull],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found = re.findall(r"^ +([0-9.]+) MiB +(\S+) s +(.*)$", text, re.MULTILINE)
    return [(float(seconds), float(size), flags) for size, seconds, flags in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--bin", default=BIN, help="where the tools are")
    parser.add_argument("--venv", default=os.path.join(ROOT, "build", "benchmark-venv"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = f"{folder}/export.py"
        open(script, "w").write(EXPORT)
        subprocess.run(
            [f"{options.venv}/bin/python", script, f"{ROOT}/tools/scrimp-export", folder, "gpt", str(options.batch)],
            check=True,
        )
        model = f"{folder}/model.onnx"
        front = candidates(options.bin, model)
        most = min(options.most, len(front))
        chosen = [front[round(i * (len(front) - 1) / max(most - 1, 1))] for i in range(most)]
        for i, (_, _, flags) in enumerate(chosen):
            subprocess.run(
                [f"{options.bin}/scrimp-compile", model, "-o", f"{folder}/train{i}", "--quiet", "--workers", "2"]
                + shlex.split(flags),
                check=True,
            )
        times = [[] for _ in chosen]
        for r in range(options.rounds):
            for i in range(most) if r % 2 == 0 else reversed(range(most)):
                whole, first = (cpu_seconds(f"{folder}/train{i}", folder, n) for n in (1 + options.steps, 1))
                times[i].append((whole - first) / options.steps)
        measured = [statistics.median(t) for t in times]
    print(f"GPT 4x256, batch {options.batch} x 256: {most} of {len(front)} candidates\n  estimated  measured (CPU s)  process  flags")
    for (seconds, size, flags), found in zip(chosen, measured):
        print(f"  {seconds:9.3f}  {found:16.3f}  {size:6.1f}  {flags}")
    pairs = [p for p in itertools.combinations(range(most), 2) if max(measured[i] for i in p) >= 1.1 * min(measured[i] for i in p)]
    wrong = [(i, j) for i, j in pairs if (chosen[i][0] - chosen[j][0]) * (measured[i] - measured[j]) < 0]
    print(f"of {len(pairs)} pairs whose times differ by a tenth {len(pairs) - len(wrong)} are ordered alike")
    for i, j in wrong:
        print(f"  otherwise: {chosen[i][2]} ({measured[i]:.3f} s) and {chosen[j][2]} ({measured[j]:.3f} s)")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
