"""The kernels of every model assemble for every architecture, in every precision: nothing spilled, little shared.

usage: device-code.py FOLDER     SCRIPT's compiler is in PATH, and ptxas is there. SCRIMP_ALL_COMBINATIONS=1: all of them"""
import itertools
import json
import os
import sys

import harness
from harness import INPUTS, MODELS, check, fresh_folder, run

CHIPS = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]
folder = fresh_folder(sys.argv[1])
pairs = list(itertools.product(INPUTS, ("fp32", "bf16", "fp64")))
if not os.environ.get("SCRIMP_ALL_COMBINATIONS"):
    pairs = [("gpt2", "bf16"), ("resnet18", "fp32"), ("bert", "fp64"), ("llama", "fp32"), ("dropout", "bf16")]
for model, precision in pairs:
    report = folder / f"{model}-{precision}.json"
    run(["scrimp-compile", MODELS / model / "export.onnx", "--dim", "batch=2", "--quiet", "--target", "cuda", "--precision",
         precision, "--emit", "mlir", "--report", report, "-o", folder / "planned.mlir"])  # fmt: skip
    code = json.loads(report.read_text())["device_code"]
    check([i["chip"] for i in code["images"]] == CHIPS, f"{model}: images for {code['images']}")
    check(len(code["kernels"]) > 10, f"{model}: {len(code['kernels'])} kernels")
    for name, kernel in code["kernels"].items():
        check(list(kernel["chips"]) and set(kernel["chips"]) == set(CHIPS), f"{model}: {name} for {kernel['chips']}")
        for chip, use in kernel["chips"].items():
            what = f"{model}, {precision}: {name} ({kernel['where']}) on {chip}: {use}"
            check(use["spill_bytes"] == 0 and use["stack_bytes"] == 0, what)
            check(0 < use["registers"] <= 255 and use["shared_bytes"] <= 99 << 10 and 0 < use["occupancy"] <= 1, what)
    # Of what kernels move, the part of those that load, or store, 16 bytes at once. The rest are rows too short for a
    # warp of these small models, and what is gathered or column by column.
    moved = {True: 0, False: 0}
    for name, kernel in code["kernels"].items():
        for accesses, count in (("loads_by_bits", "read_bytes"), ("stores_by_bits", "written_bytes")):
            for bits in kernel[accesses]:
                check(bits in ("8", "16", "32", "64", "128"), f"{model}: {name} moves {bits} bits at once")
            moved["128" in kernel[accesses]] += kernel[count] * kernel["launches"]
    share = moved[True] / sum(moved.values())
    check(share > 0.8, f"{model}, {precision}: only {share:.2f} of the bytes move in 16 at once")
    print(f"{model} {precision}: {len(code['kernels'])} kernels, {share:.2f} of {sum(moved.values())} bytes in 16 at once, "
          f"{sum(i['bytes'] for i in code['images']) + code['ptx_bytes']} bytes")  # fmt: skip
