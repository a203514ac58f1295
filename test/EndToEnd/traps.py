"""Small models whose right answer is known by hand: the cases of the list of numerical traps that a graph can show.

    python traps.py FOLDER [NAME ...]

Each builds its ONNX file, trains by SGD (whose update shows the gradient) and looks at losses and weights.
"""

import numpy as np

import harness
from harness import check, compile_model, train, train_steps, weights
from onnx_writer import model, node, value

SGD = ("--optimizer", "sgd")


def f4(x):
    return np.asarray(x, "f4")


def learn(folder, name, graph, data, *flags, compile_flags=SGD, dims=("batch=1",)):
    """Compiles `graph` (bytes) and trains; (steps, final weights). data: {input: array}."""
    (folder / f"{name}.onnx").write_bytes(graph)
    names = [f for n in data for f in ("--data", n)]
    compile_model(
        folder / f"{name}.onnx", folder / name, *names, *compile_flags, *(f for d in dims for f in ("--dim", d))
    )
    files = []
    for n, array in data.items():
        np.save(folder / f"{name}.{n}.npy", array)
        files += ["--data", f"{n}={folder}/{name}.{n}.npy"]
    steps = train_steps(
        folder / name, folder / f"{name}.jsonl", "--no-shuffle", "--save", folder / f"{name}.save", *files, *flags
    )
    return steps, weights(folder / f"{name}.save")


def near(found, expected, what, tolerance=1e-6):
    found, expected = np.asarray(found, "f8"), np.asarray(expected, "f8")
    check(
        found.shape == expected.shape and np.allclose(found, expected, tolerance, tolerance),
        f"{what}: found {found.tolist()}, expected {expected.tolist()}",
    )


def master_weights(folder):
    """19: 100 steps of 6e-4 from w = 1 through a bfloat16 cast: the weight that is kept is .94, not 1."""
    graph = model(
        [
            node("Cast", ["w"], ["low"], to=16),
            node("Cast", ["low"], ["high"], to=1),
            node("Mul", ["high", "x"], ["y"]),
            node("ReduceSum", ["y"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch"])],
        [value("loss", "f4", [])],
        {"w": f4([1])},
    )
    _, final = learn(folder, "master", graph, {"x": f4([1])}, "--lr", "6e-4", "--steps", "100")
    near(final["w"], [0.94], "the weight", 1e-5)


def linear_in_parts(folder):
    """2 and 9: a linear layer on 8 rows, whole and in 2 and 8 parts: the same losses, norms and weights, and one learning
    rate for each update: warm-up over 2 of 10, then a cosine."""
    random = np.random.default_rng(2)
    graph = model(
        [
            node("Gemm", ["x", "w", "b"], ["y"]),
            node("Sub", ["y", "t"], ["d"]),
            node("Mul", ["d", "d"], ["q"]),
            node("ReduceMean", ["q"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 4]), value("t", "f4", ["batch", 3])],
        [value("loss", "f4", [])],
        {"w": f4(random.normal(size=(4, 3))), "b": f4(np.zeros(3))},
    )
    data = {"x": f4(random.normal(size=(16, 4))), "t": f4(random.normal(size=(16, 3)))}
    rates = [0.05, 0.1] + [0.05 * (1 + np.cos(np.pi * i / 8)) for i in range(8)]
    flags = ("--lr", "0.1", "--lr-schedule", "cosine", "--warmup", "2", "--steps", "10")
    whole = None
    for count in (1, 2, 8):
        steps, final = learn(
            folder, f"k{count}", graph, data, *flags, compile_flags=(*SGD, "--micro-batches", count), dims=["batch=8"]
        )
        whole = whole or (steps, final)
        near([s["lr"] for s in steps], rates, f"{count} parts: the rates")
        for key in ("loss", "grad_norm"):
            near([s[key] for s in steps], [s[key] for s in whole[0]], f"{count} parts: {key}", 1e-5)
        for name in ("w", "b"):
            near(final[name], whole[1][name], f"{count} parts: {name}", 1e-5)


def tied_in_parts(folder):
    """14: both uses of a tied embedding count as one parameter, whatever is split, computed again or in chunks."""
    graph = model(
        [
            node("Gather", ["w", "ids"], ["rows"], name="embed/gather"),
            node("Transpose", ["w"], ["turned"], perm=[1, 0], name="head/transpose"),
            node("MatMul", ["rows", "turned"], ["scores"], name="head/product"),
            node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"], name="loss/entropy"),
        ],
        [value("ids", "i8", ["batch"]), value("labels", "i8", ["batch"])],
        [value("loss", "f4", [])],
        {"w": f4(np.sin(np.arange(12) / 10).reshape(4, 3))},
    )
    data = {"ids": np.array([0, 1, 1]), "labels": np.array([1, 2, 3])}
    for name, flags in (
        ("whole", ()),
        ("parts", ("--micro-batches", "3")),
        ("again", ("--micro-batches", "2", "--remat", "full", "--clip-grad-norm")),
        ("chunks", ("--chunk", "head=3")),
    ):
        (step,), _ = learn(
            folder, name, graph, data, "--no-shuffle", "--steps", "1", compile_flags=(*SGD, *flags), dims=["batch=3"]
        )
        near(step["grad_norm"], 0.228612, f"{name}: the norm (apart: .246125)", 1e-5)


def dropout_again(folder):
    """23: a mask that is drawn again is the same: the gradient of dropout's input is 0 just where its output is."""
    random = np.random.default_rng(23)
    start = f4(random.uniform(0.5, 1, size=(64, 16)))
    graph = model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], name="up/gemm"),
            node("Dropout", ["h", "ratio", "yes"], ["d"], name="drop/dropout"),
            node("MatMul", ["d", "w2"], ["y"], name="down/product"),
            node("ReduceSum", ["y"], ["loss"], keepdims=0, name="loss/sum"),
        ],
        [value("x", "f4", ["batch", 16])],
        [value("loss", "f4", [])],
        {
            "w1": f4(random.normal(size=(16, 64))),
            "b1": np.zeros(64, "f4"),
            "w2": start,
            "ratio": f4(0.5),
            "yes": np.array(True),
        },
    )
    x = f4(random.normal(size=(1, 16)))
    plain = None
    for name, policy in (("none", "none"), ("full", "full"), ("all", "tradeoff=1"), ("named", "recompute=*dropout*")):
        flags = (*SGD, "--trainable", "b1", "--trainable", "w2", "--remat", policy)
        _, final = learn(folder, name, graph, {"x": x}, "--lr", "1", "--steps", "1", compile_flags=flags)
        plain = plain or final
        check(all((final[n] == plain[n]).all() for n in ("b1", "w2")), f"{policy}: weights differ")
        output = (final["w2"] != start).any(axis=1)
        check(16 < output.sum() < 48, f"{policy}: {output.sum()} of 64 are kept")
        check(((final["b1"] != 0) == output).all(), f"{policy}: another mask in the backward pass")


def statistics_again(folder):
    """24: statistics move once, although batch normalization is computed twice: means (.2, .4) of [[1, 2], [3, 6]]."""
    norm = ["scale", "bias", "running_mean", "running_var"]
    graph = model(
        [
            node("Mul", ["x", "w"], ["h"], name="a.0/mul"),
            node("BatchNormalization", ["h", *norm], ["y", "m", "v"], training_mode=1, momentum=0.9, name="a.0/norm"),
            node("Tanh", ["y"], ["z"], name="a.0/tanh"),
            node("Mul", ["z", "x"], ["q"], name="a.1/mul"),
            node("ReduceSum", ["q"], ["loss"], keepdims=0, name="loss/sum"),
        ],
        [value("x", "f4", ["batch", 2])],
        [value("loss", "f4", [])],
        {"w": f4([1, 1]), "scale": f4([1, 1]), "bias": f4([0, 0]), norm[2]: f4([0, 0]), norm[3]: f4([1, 1])},
    )
    for policy in ("none", "full", "tradeoff=1"):
        name = policy.replace("=", "")
        _, final = learn(
            folder, name, graph, {"x": f4([[1, 2], [3, 6]])}, "--lr", "0", "--steps", "1",
            compile_flags=(*SGD, "--remat", policy), dims=["batch=2"],
        )  # fmt: skip
        near(final["running_mean"], [0.2, 0.4], f"{policy}: the running mean")
        near(final["running_var"], [0.9 + 0.1 * 2, 0.9 + 0.1 * 8], f"{policy}: the running variance")


def resume_in_parts(folder):
    """40: three updates of four micro-batches have used 12 of them; what goes on there is the uninterrupted run."""
    cases = harness.MODELS / "dropout"
    compile_model(cases / "export.onnx", folder / "train", "--dim", "batch=8", "--micro-batches", "4")
    data = harness.data_flags(cases, harness.INPUTS["dropout"])
    runs = {}
    for name, flags in (
        ("whole", ("--steps", "5")),
        ("first", ("--steps", "3")),
        ("rest", ("--steps", "5", "--resume", folder / "first")),
    ):
        runs[name] = train_steps(
            folder / "train", folder / f"{name}.jsonl", "--save", folder / name, "--seed", "3", *flags, *data
        )
    check(runs["first"][-1]["samples"] == 12 * 2, f"{runs['first'][-1]}")
    harness.same_losses(runs["rest"], runs["whole"][3:], "resumed")
    harness.same_checkpoints(folder / "rest", folder / "whole", "resumed")


def clip_is_applied(folder):
    """56: SGD, lr 1, gradient (3, 4), clip 1: the update is (.6, .8), in two parts too."""
    graph = model(
        [node("Mul", ["x", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch", 2])],
        [value("loss", "f4", [])],
        {"w": f4([0, 0])},
    )
    flags = ("--lr", "1", "--steps", "1", "--clip-norm", "1")
    for name, gradient, update in (("clip", [3, 4], [0.6, 0.8]), ("unclipped", [0.3, 0.4], [0.3, 0.4])):
        compile_flags = (*SGD, "--clip-grad-norm")
        steps, final = learn(folder, name, graph, {"x": f4([gradient])}, *flags, compile_flags=compile_flags)
        near(-final["w"], update, f"the update by {gradient}", 1e-6)
        near(steps[0]["grad_norm"], np.hypot(*gradient), "the reported norm is that before clipping")
    parts = (*SGD, "--clip-grad-norm", "--micro-batches", "2")
    _, final = learn(folder, "parts", graph, {"x": f4([[1, 5], [2, -1]])}, *flags, compile_flags=parts, dims=["batch=2"])
    near(-final["w"], [0.6, 0.8], "the update in two parts")


def running_statistics(folder):
    """They move by each call of the module, in order, and a step that is skipped for its loss leaves them alone."""
    x = np.random.default_rng(5).normal(size=(12, 2)).astype("f4")
    x[5, 1] = np.nan
    norm = ["weight", "bias", "running_mean", "running_var"]
    graph = model(
        [
            node("BatchNormalization", ["x", *norm], ["y", "mean", "var"], training_mode=1, momentum=0.75),
            node("Mul", ["y", "w"], ["z"]),
            node("BatchNormalization", ["z", *norm], ["t", "mean2", "var2"], training_mode=1, momentum=0.75),
            node("ReduceSum", ["t"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 2])],
        [value("loss", "f4", [])],
        {"w": f4([2, 3]), "weight": f4([1, 0.5]), "bias": f4([0, 1]), **{n: f4([0, 1]) for n in norm[2:]}},
        opset=15,
    )
    steps, final = learn(
        folder, "norm", graph, {"x": x}, "--lr", "0", "--steps", "3", "--on-nan", "skip", dims=("batch=4",)
    )
    check([np.isnan(s["loss"]) if s["loss"] is not None else True for s in steps] == [False, True, False], f"{steps}")
    mean, var = np.array([0.0, 1]), np.array([0.0, 1])
    for batch in (x[:4].astype("f8"), x[8:].astype("f8")):
        y = (batch - batch.mean(0)) / np.sqrt(batch.var(0) + 1e-5) * [1, 0.5] + [0, 1]
        for seen in (batch, y * [2, 3]):
            mean, var = 0.75 * mean + 0.25 * seen.mean(0), 0.75 * var + 0.25 * seen.var(0, ddof=1)
    near(final["running_mean"], mean, "the running mean")
    near(final["running_var"], var, "the running variance")


def wrong_weights(folder):
    """43: a checkpoint brings back exactly what it saved, frozen layers too; an absent one fails by its name."""
    cases = harness.MODELS / "cases" / "frozen"
    compile_model(cases / "export.onnx", folder / "train")
    data = harness.data_flags(cases, {"x": "x.npy", "labels": "labels.npy"})
    train(folder / "train", "--steps", "2", "--save", folder / "A", *data)
    train(folder / "train", "--steps", "4", "--save", folder / "B", *data)
    a, b = weights(folder / "A"), weights(folder / "B")
    check(any((a[n] != b[n]).any() for n in a), "A and B are equal")
    for n in ("first.weight", "first.bias"):
        original = harness.read_safetensors(cases / "export.safetensors")[n]
        check(a[n].tobytes() == b[n].tobytes() == original.tobytes(), f"the frozen '{n}' moved")
    check(
        not any(
            n.startswith("first.")
            for n in harness.read_safetensors(harness.newest(folder / "A") / "optimizer.safetensors")
        ),
        "a frozen parameter has optimizer state",
    )
    train(folder / "train", "--steps", "2", "--resume", folder / "A", "--save", folder / "A2", *data)
    train(
        folder / "train",
        "--steps",
        "0",
        "--init-from",
        folder / "A",
        "--save",
        folder / "A3",
        *data,
    )
    again = weights(folder / "A3")
    check(
        list(again) == list(a) and all(again[n].tobytes() == a[n].tobytes() for n in a),
        "A did not come back bit for bit",
    )
    for flag in ("--resume", "--init-from"):
        errors = train(folder / "train", "--steps", "2", flag, folder / "C", *data, ok=False).stderr
        check(errors.count("\n") == 1 and str(folder / "C") in errors, f"{flag}: {errors}")


def tied_names(folder):
    """30: the checkpoint holds both names of a tied pair, equal, at every parameter's own place."""
    cases = harness.MODELS / "cases" / "tied-late"
    compile_model(cases / "export.onnx", folder / "train")
    train(
        folder / "train",
        "--steps",
        "5",
        "--save",
        folder / "save",
        *harness.data_flags(cases, {"tokens": "tokens.npy", "labels": "labels.npy"}),
    )
    final = weights(folder / "save")
    check(
        set(final) == {"scale", "shift", "mix.weight", "embedding.weight", "head.weight"},
        f"the checkpoint holds {sorted(final)}",
    )
    check(final["embedding.weight"].tobytes() == final["head.weight"].tobytes(), "the tied pair differs")
    check((final["scale"] != 0.5).any(), "nothing was trained")


if __name__ == "__main__":
    harness.main(
        [
            master_weights,
            linear_in_parts,
            tied_in_parts,
            dropout_again,
            statistics_again,
            resume_in_parts,
            clip_is_applied,
            running_statistics,
            wrong_weights,
            tied_names,
        ]
    )
