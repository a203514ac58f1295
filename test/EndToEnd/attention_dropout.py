"""Attention whose probabilities are dropped out: one op that draws what the ops it was made of would draw.

    python attention_dropout.py FOLDER [NAME ...]
"""

import json

import numpy as np

import harness
from harness import check, compile_model, same_checkpoints, same_losses, train_steps
from onnx_writer import model, node, value, write

WIDTH, RATIO = 16, 0.25


def graph(path, length, heads, by_mask=False):
    """Mean square of attention over x[batch, length, WIDTH]. by_mask: the probabilities are not dropped by Dropout's
    result but by its mask, which no pattern takes for attention."""
    projections = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        projections += [
            node("MatMul", ["x", f"{name}.weight"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [name], perm=order),
        ]
    dropped = (
        [
            node("Mul", ["p", "kept"], ["larger"]),
            node("Where", ["mask", "larger", "zero"], ["d"]),
        ]
        if by_mask
        else []
    )
    return write(
        path,
        [
            *projections,
            node("MatMul", ["q", "k"], ["s"]),
            node("Softmax", ["s"], ["p"], axis=-1),
            node("Dropout", ["p", "ratio", "train"], ["unused", "mask"] if by_mask else ["d"]),
            *dropped,
            node("MatMul", ["d", "v"], ["y"]),
            node("Mul", ["y", "y"], ["y2"]),
            node("ReduceMean", ["y2"], ["loss"], keepdims=0),
        ],
        [value("x", "f8", ["batch", length, WIDTH])],
        [value("loss", "f8", [])],
        {
            **{f"{n}.weight": np.random.default_rng(i).normal(size=(WIDTH, WIDTH)) / 3 for i, n in enumerate("qkv")},
            "split": np.array([0, 0, heads, WIDTH // heads]),
            "ratio": np.array(RATIO, "f4"),
            "train": np.array(True),
            "kept": np.array(1 / (1 - RATIO)),
            "zero": np.array(0.0),
        },
    )


def build(folder, name, batch, length, heads, *flags, by_mask=False):
    """The executable, and the report of its plan."""
    path = graph(folder / f"{name}.onnx", length, heads, by_mask)
    report = folder / f"{name}.json"
    compile_model(
        path, folder / name, "--data", "x", "--dim", f"batch={batch}", "--workers", "3", "--report", report, *flags
    )
    np.save(folder / "x.npy", np.random.default_rng(9).normal(size=(10, length, WIDTH)))
    return folder / name, json.loads(report.read_text())


def run(executable, folder, name, *flags):
    steps = train_steps(
        executable, folder / f"{name}.jsonl", "--save", folder / name, "--data", f"x={folder}/x.npy", *flags
    )
    return steps, folder / name


def draws_of_its_parts(folder):
    """In fp64 one op and its parts, dropped by Dropout's mask, learn the same; only the parts hold tensors of scores."""
    length, heads, batch = 64, 4, 4
    whole, plan = build(folder, "whole", batch, length, heads)
    parts, plan_of_parts = build(folder, "parts", batch, length, heads, by_mask=True)
    scores = batch * heads * length * length * 8
    held = [p["segments"]["activations"] for p in (plan, plan_of_parts)]
    check(held[0] < scores <= held[1], f"activations take {held}, the scores {scores}")
    flags = ("--steps", "5", "--lr", "1e-2")
    a, b = (run(e, folder, f"{e.name}.run", *flags) for e in (whole, parts))
    for x, y in zip(a[0], b[0]):
        check(
            abs(x["loss"] - y["loss"]) <= 1e-12 * abs(y["loss"]),
            f"step {x['step']}: loss {x['loss']} of one op, {y['loss']} of its parts",
        )
    left, right = (harness.weights(folder) for _, folder in (a, b))
    for name in left:
        far = np.abs(left[name] - right[name]).max()
        check(far <= 1e-10, f"{name} differs by {far}")
    other = run(whole, folder, "other", *flags, "--seed", "5")
    check(other[0][0]["loss"] != a[0][0]["loss"], "the seed does not reach attention")


def same_bits(folder):
    """Threads and resuming, with more heads than threads and with one head, whose gradient is computed by blocks."""
    for name, batch, length, heads in (("heads", 4, 24, 4), ("head", 1, 600, 1)):
        (folder / name).mkdir()
        executable, _ = build(folder / name, name, batch, length, heads, "--precision", "fp32")
        go = lambda run_name, *flags: run(executable, folder / name, run_name, "--steps", "4", *flags)
        one, two, three = (go(f"threads{n}", "--threads", n) for n in (1, 2, 3))
        for other in (two, three):
            same_losses(one[0], other[0], f"{name}, threads")
            same_checkpoints(one[1], other[1], f"{name}, threads")
        run(executable, folder / name, "part", "--steps", "2", "--threads", "2")
        rest = go("rest", "--resume", folder / name / "part")
        same_losses(one[0][2:], rest[0], f"{name}, resumed")
        same_checkpoints(one[1], rest[1], f"{name}, resumed")


def evaluates_without(folder):
    """In evaluation nothing is dropped: its loss does not depend on the seed."""
    executable, _ = build(folder, "model", 2, 8, 2)
    runs = []
    for seed in (1, 2):
        metrics = folder / f"{seed}.jsonl"
        data = ("--data", f"x={folder}/x.npy", "--eval-data", f"x={folder}/x.npy", "--no-shuffle")
        harness.train(executable, "--metrics", metrics, "--steps", "1", "--lr", "0", "--seed", seed, *data)
        runs.append(harness.read_metrics(metrics))
    losses = [[m[key] for m in metrics if key in m] for metrics in runs for key in ("loss", "eval_loss")]
    check(losses[0] != losses[2], f"the seed does not reach training: {losses}")
    check(losses[1] and losses[1] == losses[3], f"the seed reaches evaluation: {losses}")


if __name__ == "__main__":
    harness.main([draws_of_its_parts, same_bits, evaluates_without])
