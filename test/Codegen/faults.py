"""Plants faults in the kernels of an emulated device: each must be reported, or give another result.

usage: faults.py FOLDER"""
import itertools
import os
import subprocess
import sys

folder = sys.argv[1]
FILES = ["rows-neural.mlir", "rows-images.mlir", "rows-reduce.mlir"]
SIZES = {"COLS": "1100", "WIDE": "f32", "TYPE": "f32"}
# Attention and its gradient, a kernel each, in tiles that are not full: of a warp, and of a block of 128 threads.
TEXT = """
func.func @main(%q: TENSOR {scrimp.input = -1 : i64}, %k: TENSOR {scrimp.input = -1 : i64}, %v: TENSOR {scrimp.input = -1 : i64},
                %g: TENSOR {scrimp.input = -1 : i64}) -> (TENSOR, TENSOR, TENSOR, TENSOR) {
  %out, %lse = scrimp.attention %q, %k, %v {causal, scale = 0.3} : TENSOR, TENSOR, TENSOR -> TENSOR, LSE
  %dq, %dk, %dv = scrimp.attention_grad %q, %k, %v, %out, %lse, %g {causal, scale = 0.3} : TENSOR, TENSOR, TENSOR, TENSOR, LSE
  return %out, %dq, %dk, %dv : TENSOR, TENSOR, TENSOR, TENSOR
}
"""
TILES = [TEXT.replace("TENSOR", f"tensor<1x2x{rows}x{width}xf32>").replace("LSE", f"tensor<1x2x{rows}xf32>")
         for rows, width in ((9, 8), (37, 36))]  # fmt: skip


def text_of(name):
    text = open(os.path.join(folder, name)).read()
    for word, value in SIZES.items():
        text = text.replace(word, value)
    return text


def run(text, *flags, order="forward"):
    command = ["scrimp-kernel-test", "--target", "emulated", "--ulps", "64", "--no-compare-fusion", *flags, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True,
                          env=dict(os.environ, SCRIMP_EMULATED_ORDER=order))  # fmt: skip
    return done.returncode


failed = False
for kind, least in (("barrier-removed", 10), ("barrier-divergent", 10), ("mask", 10), ("index", 10),
                    ("misaligned", 8)):
    planted = 0
    for name in FILES:
        text = text_of(name)
        for kernel in range(100):
            flags = ("--fault", kind, "--faulty-kernel", str(kernel))
            status = run(text, *flags)
            if status == 3 or planted == 10:
                break
            planted += 1
            if status == 0 and run(text, *flags, order="reverse") == 0:
                failed = True
                print(f"{kind} in kernel {kernel} of {name}: nothing is found")
    for text, kernel in itertools.product(TILES, range(0 if kind in ("mask", "misaligned") else 2)):
        flags = ("--fault", kind, "--faulty-kernel", str(kernel))
        if run(text, *flags) != 1 and run(text, *flags, order="reverse") != 1:
            failed = True
            print(f"{kind} in kernel {kernel} of attention in {TILES.index(text)}: nothing is found")
    if planted < least:
        failed = True
        print(f"{kind}: {planted} kernels have a place for it, expected {least}")
for text in [*map(text_of, FILES), *TILES]:
    if run(text):
        failed = True
        print(f"fails without a fault: {text}")
sys.exit(failed)
