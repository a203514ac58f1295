"""Numbers that are not finite, and a BLAS library that is wrong: the run ends before they are learned from or saved, and
says where they come from.

python wrong_numbers.py FOLDER [NAME ...]
"""

import numpy as np

import harness
from bad_input import MLP, expect, listing
from harness import MODELS, check, run, train
from onnx_writer import model, node, value


def not_a_number(folder):
    """A loss that is not finite stops at its step and changes nothing, or is skipped and changes nothing."""
    program = folder / "train"
    harness.compile_model(MODELS / "mlp" / "export.onnx", program, "--dim", "batch=8", "--workers", "2")
    x = np.load(MODELS / "mlp" / "x.npy")
    x[12, 3] = np.nan
    np.save(folder / "x.npy", x)
    data = ["--data", f"x={folder}/x.npy", "--data", f"labels={MODELS}/mlp/labels.npy", "--no-shuffle"]
    metrics = folder / "m.jsonl"
    result = train(program, "--steps", "4", "--metrics", metrics, "--save", folder / "stopped", *data, ok=False)
    what = f"loss is nan at step 2: input 'x' holds nan, sample 12 of '{folder}/x.npy'"
    expected = f"train: error: {what}; the step was not applied: mend the data, or give --on-nan skip\n"
    check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
    steps = harness.read_metrics(metrics)
    check([(s["step"], s.get("nonfinite")) for s in steps] == [(1, None), (2, "loss")], f"{steps}")
    skip = ["--on-nan", "skip"]
    skipped = train(
        program, "--steps", "2", "--metrics", folder / "s.jsonl", "--save", folder / "skipped", *skip, *data
    )
    check(skipped.stderr == f"train: warning: {what}; the step is skipped\n", skipped.stderr)
    last = harness.read_metrics(folder / "s.jsonl")[-1]
    check(last["loss"] is None and last["skipped"] is True, f"{last}")
    train(program, "--steps", "1", "--save", folder / "one", *data)
    harness.same_checkpoints(folder / "skipped", folder / "one", "a skipped step")
    # The run goes on, and the optimizer's own step count does not: step 3 is the second update.
    more = harness.train_steps(program, folder / "t.jsonl", "--steps", "4", *skip, *data)
    check([s["loss"] is None for s in more] == [False, True, False, False], f"{[s['loss'] for s in more]}")


def root(folder):
    """mean(sqrt(x w) v): where a row of x is 0, the loss is finite and the gradient of w is not; that of v is."""
    (folder / "m.onnx").write_bytes(
        model(
            [
                node("MatMul", ["x", "w"], ["y"]),
                node("Sqrt", ["y"], ["s"]),
                node("MatMul", ["s", "v"], ["t"]),
                node("ReduceMean", ["t"], ["loss"], keepdims=0),
            ],
            [value("x", "f4", ["batch", 4])],
            [value("loss", "f4", [])],
            {"v": np.full((3, 1), 0.5, "f4"), "w": np.ones((4, 3), "f4")},
        )
    )
    x = np.random.default_rng(7).uniform(1, 2, (8, 4)).astype("f4")
    x[5] = 0
    np.save(folder / "x.npy", x)
    np.save(folder / "without.npy", np.delete(x, [4, 5], 0))
    return lambda name, *flags: harness.compile_model(
        folder / "m.onnx", folder / name, "--dim", "batch=2", "--data", "x", *flags
    )


def gradient(folder):
    """A finite loss with a gradient that is not: the run stops, what was saved stays, and the parameter is named."""
    root(folder)("train")
    data = ["--data", f"x={folder}/x.npy", "--no-shuffle", "--steps", "4"]
    save = ["--save", folder / "save", "--save-every", "1", "--metrics", folder / "m.jsonl"]
    result = train(folder / "train", *data, *save, ok=False)
    steps = harness.read_metrics(folder / "m.jsonl")
    check([(s["step"], s.get("nonfinite")) for s in steps] == [(1, None), (2, None), (3, "w")], f"{steps}")
    what = f"the gradient of 'w' is nan at step 3, though the loss is {steps[2]['loss']:.6g}"
    expected = (
        f"train: error: {what}; nothing more is saved: something between 'w' and the loss has an infinite slope there (a "
        "sqrt or norm of 0, a log or division near 0); keep it away from that point, say by an epsilon, or compile with "
        "--skip-nonfinite-grad and give --on-nan skip\n"
    )
    check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
    check(harness.newest(folder / "save").name == "step-000002", f"{listing(folder / 'save')}")
    check(all(np.isfinite(w).all() for w in harness.weights(folder / "save").values()), "weights are spoiled")
    refused = train(folder / "train", *data, "--on-nan", "skip", ok=False)
    expected = (
        f"train: error: {what}; this program updates parameters before all gradients are known, so the step cannot be "
        "skipped; nothing more is saved: recompile with --skip-nonfinite-grad for --on-nan skip\n"
    )
    check(refused.stderr == expected, f"{refused.stderr}expected\n{expected}")


def skipped_gradient(folder):
    """Programs whose updates wait skip such a step: weights and moments are as if its samples were not there."""
    compile_ = root(folder)
    for name, *flags in (("waits", "--skip-nonfinite-grad"), ("clips", "--clip-grad-norm")):
        compile_(name, *flags)
        run_ = lambda file, steps, *more: train(
            folder / name, "--data", f"x={folder}/{file}", "--no-shuffle", "--steps", steps, *more
        )
        result = run_("x.npy", "4", "--on-nan", "skip", "--save", folder / f"{name}-a", "--metrics", folder / "m.jsonl")
        steps = harness.read_metrics(folder / "m.jsonl")
        check([s.get("skipped", False) for s in steps] == [False, False, True, False], f"{steps}")
        expected = (
            f"{name}: warning: the gradient of 'w' is nan at step 3, though the loss is {steps[2]['loss']:.6g}; the step "
            "is skipped\n"
        )
        check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
        run_("without.npy", "3", "--save", folder / f"{name}-b")
        harness.same_checkpoints(folder / f"{name}-a", folder / f"{name}-b", name)
    # Waiting changes no bit of a step that is finite.
    compile_("early")
    for name in ("early", "waits"):
        train(folder / name, "--data", f"x={folder}/x.npy", "--no-shuffle", "--steps", "2", "--save", folder / name[:1])
    harness.same_checkpoints(folder / "e", folder / "w", "updates that wait")


WRONG_BLAS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
  void (*right)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int) =
      dlsym(RTLD_NEXT, "cblas_sgemm");
  right(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (WHERE)
    WHAT;
}
"""


def blas(folder):
    """A library that is wrong in one element, at one shape, or that crashes: found before the first step."""
    program = folder / "train"
    harness.compile_model(MODELS / "mlp" / "export.onnx", program, "--dim", "batch=8", "--workers", "2")
    data = [*harness.data_flags(MODELS / "mlp", MLP), "--steps", "2", "--save", folder / "save"]
    (folder / "wrong.c").write_text(WRONG_BLAS)

    def preload(where, what="c[(m - 1) * ldc + n - 1] += 1"):
        library = folder / "wrong.so"
        run(["cc", "-shared", "-fPIC", f"-DWHERE={where}", f"-DWHAT={what}", folder / "wrong.c", "-o", library])
        return {"env": {**harness.os.environ, "LD_PRELOAD": str(library), "OPENBLAS_CORETYPE": "Haswell"}}

    library = "OpenBLAS ... ('FOLDER/wrong.so', kernels for Haswell)"
    advice = "; set OPENBLAS_CORETYPE=Sandybridge for plainer kernels, or install a newer OpenBLAS"
    wrong = f"train: error: {library} computes wrong on this processor: element "
    # 112: transposed. What is wrong is one element at the edge of one kind of product.
    environment = preload("tb == 112 && ta != 112 && beta != 0")
    for flags in (data, ["--verify"]):
        expect(
            folder,
            [program, *flags],
            wrong + "(18, 36) of an f32 product A B^T + C with m = 19, n = 37, k = 23 is ..., expected ..." + advice,
            **environment,
        )
    expect(
        folder,
        [program, *data],
        f"train: error: {library} crashes on this processor{advice}",
        **preload("m > 100", "raise(SIGILL)"),
    )
    # A shape of the program alone: --verify goes through them.
    environment = preload("k == 16")
    train(program, *data, **environment)
    (folder / "save").rename(folder / "saved")
    expect(folder, [program, "--verify"], wrong + "... with m = ..., k = 16 is ..., in '...'" + advice, **environment)
    right = train(program, "--verify")
    check("all agree with plain sums; OpenBLAS " in right.stdout, right.stdout)


if __name__ == "__main__":
    harness.main([not_a_number, gradient, skipped_gradient, blas])
