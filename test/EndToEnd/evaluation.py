"""Evaluation and data: partial batches, token windows, the order of samples.

python evaluation.py FOLDER [NAME ...]
"""

import numpy as np

import harness
from harness import MODELS, check, compile_model, read_metrics, read_safetensors, train, train_steps, weights
from onnx_writer import model, node, value

MLP = {"x": "x.npy", "labels": "labels.npy"}


def mlp_loss(tensors, x, labels):
    """The mean cross entropy of zoo.py's mlp, in double."""
    from math import erf, sqrt

    t = {n: v.astype("f8") for n, v in tensors.items()}
    h = np.maximum(x.astype("f8") @ t["0.weight"].T + t["0.bias"], 0)
    h = h @ t["2.weight"].T + t["2.bias"]
    h = h * (1 + np.vectorize(erf)(h / sqrt(2))) / 2
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5) * t["4.weight"] + t["4.bias"]
    logits = h @ t["5.weight"].T + t["5.bias"]
    return float((np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(labels)), labels]).mean())


def partial_batch(folder):
    """29 samples in batches of 8: the last five count as five, an ignored one as none; training does not notice."""
    x, labels = (np.load(MODELS / "mlp" / name)[:29].copy() for name in MLP.values())
    labels[3] = -100
    np.save(folder / "x.npy", x)
    np.save(folder / "labels.npy", labels)
    compile_model(MODELS / "mlp" / "export.onnx", folder / "train", "--dim", "batch=8")
    data = harness.data_flags(MODELS / "mlp", MLP)
    train(
        folder / "train",
        "--steps",
        "5",
        "--metrics",
        folder / "m.jsonl",
        "--save",
        folder / "save",
        "--eval-every",
        "2",
        *data,
        *harness.data_flags(folder, MLP, "--eval-data"),
    )
    evaluations = {m["step"]: m["eval_loss"] for m in read_metrics(folder / "m.jsonl") if "eval_loss" in m}
    check(list(evaluations) == [2, 4, 5], f"evaluated at steps {list(evaluations)}")
    expected = mlp_loss(weights(folder / "save"), x[labels >= 0], labels[labels >= 0])
    check(abs(evaluations[5] / expected - 1) < 1e-6, f"eval_loss {evaluations[5]}, by hand {expected}")
    train(folder / "train", "--steps", "5", "--save", folder / "without", *data)
    harness.same_checkpoints(folder / "save", folder / "without", "with and without evaluation")


def losses(folder):
    """10 samples in batches of 4: the mean over all where the loss is proved to be one, else whole batches and a word."""
    random = np.random.default_rng(8)
    x, w = random.normal(size=(10, 4)).astype("f4"), random.normal(size=(4, 3)).astype("f4")
    labels, mask = random.integers(0, 3, 10), random.integers(0, 2, (10, 3)).astype("f4")
    valid = labels.astype("i8")
    labels[2], mask[1] = -100, 1
    for name, array in (("x", x), ("labels", labels.astype("i8")), ("valid", valid), ("m", mask)):
        np.save(folder / f"{name}.npy", array)
    y = x.astype("f8") @ w
    every = np.log(np.exp(y).sum(-1)) - y[np.arange(10), valid]
    entropies = np.where(labels < 0, 0, np.log(np.exp(y).sum(-1)) - y[np.arange(10), np.maximum(labels, 0)])
    mean = lambda v: node("ReduceMean", [v], ["loss"], keepdims=0)
    total = lambda v, to="loss": node("ReduceSum", [v], [to], keepdims=0)
    square = node("Mul", ["y", "y"], ["s"])
    own = [node("Mul", ["s", "m"], ["k"]), total("k", "n"), total("m", "d"), node("Div", ["n", "d"], ["loss"])]
    cross = node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["l"], reduction="none", ignore_index=-100)
    cases = {
        # Nothing is ignored: the count of labels is a number of the graph.
        "plain": ([node("SoftmaxCrossEntropyLoss", ["y", "valid"], ["loss"])], ["valid"], every.mean()),
        "unreduced": ([cross, mean("l")], ["labels"], entropies.mean()),
        "squares": ([square, mean("s")], [], (y * y).mean()),
        # A sum is that of a batch: on average four samples' worth.
        "sum": ([square, total("s")], [], (y * y).sum() * 4 / 10),
        "own_mask": ([square, *own], ["m"], (y * y * mask).sum() / mask.sum()),
        "largest": (
            [square, node("ReduceMax", ["s"], ["loss"], keepdims=0)],
            [],
            ((y * y)[:4].max() + (y * y)[4:8].max()) / 2,
        ),
    }
    kinds = {"x": ("f4", ["batch", 4]), "labels": ("i8", ["batch"]), "valid": ("i8", ["batch"]), "m": ("f4", ["batch", 3])}
    for name, (nodes, more, expected) in cases.items():
        inputs = ["x", *more]
        (folder / "m.onnx").write_bytes(
            model(
                [node("MatMul", ["x", "w"], ["y"]), *nodes],
                [value(i, *kinds[i]) for i in inputs],
                [value("loss", "f4", [])],
                {"w": w},
            )
        )
        given = [flag for i in inputs for flag in ("--data", i)]
        compile_model(folder / "m.onnx", folder / "train", "--dim", "batch=4", *given)
        files = {i: f"{i}.npy" for i in inputs}
        flags = ["--lr", "0", "--weight-decay", "0", "--steps", "1", "--metrics", folder / "m.jsonl"]
        data = [*harness.data_flags(folder, files), *harness.data_flags(folder, files, "--eval-data")]
        result = train(folder / "train", *flags, *data)
        found = [m["eval_loss"] for m in read_metrics(folder / "m.jsonl") if "eval_loss" in m]
        check(abs(found[-1] / expected - 1) < 1e-6, f"{name}: eval_loss {found}, by hand {expected}")
        warning = (
            "train: warning: the last 2 of 10 evaluation samples are left out: this model evaluates whole batches of 4\n"
        )
        check(result.stderr == (warning if name == "largest" else ""), f"{name}: {result.stderr}")


def dropout_is_off(folder):
    """Evaluation does not drop: at learning rate 0 it is the same at every step, while the training loss is not."""
    compile_model(MODELS / "dropout" / "export.onnx", folder / "train", "--dim", "batch=8")
    train(
        folder / "train",
        "--steps",
        "4",
        "--lr",
        "0",
        "--metrics",
        folder / "m.jsonl",
        "--eval-every",
        "1",
        "--no-shuffle",
        *harness.data_flags(MODELS / "dropout", MLP),
        *harness.data_flags(MODELS / "dropout", MLP, "--eval-data"),
    )
    metrics = read_metrics(folder / "m.jsonl")
    check(len({m["eval_loss"] for m in metrics if "eval_loss" in m}) == 1, "evaluation is random")
    t = {n: v.astype("f8") for n, v in read_safetensors(MODELS / "dropout" / "export.safetensors").items()}
    x, labels = (np.load(MODELS / "dropout" / name) for name in MLP.values())
    logits = np.maximum(x.astype("f8") @ t["0.weight"].T + t["0.bias"], 0) @ t["3.weight"].T + t["3.bias"]
    expected = (np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(labels)), labels]).mean()
    found = metrics[-1]["eval_loss"]
    check(abs(found / expected - 1) < 1e-6, f"eval_loss {found}, by hand {expected}")


def token_windows(folder):
    """A .bin of tokens is cut into windows of seq + 1: the labels are the inputs moved on by one."""
    tokens = np.cumsum(np.random.default_rng(6).integers(1, 4, 16 * 9 + 1)) % 160
    compile_model(MODELS / "gpt2" / "export.onnx", folder / "train", "--dim", "batch=4")
    rows = tokens[:-1].reshape(9, 16), tokens[1:].reshape(9, 16)
    for name, array in zip(("ids", "labels"), rows):
        np.save(folder / f"{name}.npy", array.astype("i8"))
    expected = train_steps(
        folder / "train",
        folder / "npy.jsonl",
        "--steps",
        "6",
        "--data",
        f"input_ids={folder}/ids.npy",
        "--data",
        f"labels={folder}/labels.npy",
    )
    for name, kind in (("t.bin", "<u2"), ("t.u32.bin", "<u4")):
        tokens.astype(kind).tofile(folder / name)
        found = train_steps(
            folder / "train", folder / f"{name}.jsonl", "--steps", "6", "--data", f"input_ids,labels={folder / name}"
        )
        harness.same_losses(expected, found, name)
    check(
        [s["tokens"] for s in expected] == [64 * (i + 1) for i in range(6)], f"tokens {[s['tokens'] for s in expected]}"
    )


def every_sample_once(folder):
    """The order is a permutation per epoch, another in each, another by seed: the loss is the sample's own number."""
    graph = model(
        [node("Mul", ["x", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch"])],
        [value("loss", "f4", [])],
        {"w": np.ones(1, "f4")},
    )
    (folder / "m.onnx").write_bytes(graph)
    compile_model(folder / "m.onnx", folder / "train", "--dim", "batch=1", "--data", "x", "--optimizer", "sgd")
    np.save(folder / "x.npy", np.arange(1, 24, dtype="f4"))
    order = lambda name, *flags: [
        int(s["loss"])
        for s in train_steps(
            folder / "train", folder / name, "--lr", "0", "--epochs", "3", "--data", f"x={folder}/x.npy", *flags
        )
    ]
    a, b, plain = order("a", "--seed", "1"), order("b", "--seed", "2"), order("c", "--no-shuffle")
    for run in (a, b):
        epochs = [run[i : i + 23] for i in (0, 23, 46)]
        check(all(sorted(e) == list(range(1, 24)) for e in epochs), f"not every sample once: {epochs}")
        check(epochs[0] != epochs[1] != epochs[2] != epochs[0], "epochs have the same order")
    check(a != b, "seeds have the same order")
    check(plain == list(range(1, 24)) * 3, "--no-shuffle is not the order of the file")


def schedules(folder):
    """Warm-up, then constant, linear or cosine: the rates that were used are the formulas' (transformers')."""
    compile_model(MODELS / "mlp" / "export.onnx", folder / "train", "--dim", "batch=8")
    data = harness.data_flags(MODELS / "mlp", MLP)
    for kind, decay in (
        ("constant", lambda p: 1.0),
        ("linear", lambda p: 1 - p),
        ("cosine", lambda p: (1 + np.cos(np.pi * p)) / 2),
    ):
        steps = train_steps(
            folder / "train",
            folder / f"{kind}.jsonl",
            "--steps",
            "12",
            "--lr",
            "0.01",
            "--lr-schedule",
            kind,
            "--warmup",
            "2",
            "--lr-min",
            "0.001",
            *data,
        )
        found = [s["lr"] for s in steps]
        expected = [0.005, 0.01] + [0.001 + 0.009 * decay(p / 10) for p in range(10)]
        check(np.allclose(found, expected, 1e-12, 0), f"{kind}: {found}, expected {expected}")


if __name__ == "__main__":
    harness.main([partial_batch, losses, dropout_is_off, token_windows, every_sample_once, schedules])
