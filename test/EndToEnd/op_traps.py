"""Cases of the list of numerical traps in single ops, and in what importers make of them: forms, opsets, gradients.

    python op_traps.py FOLDER [NAME ...]
"""

import numpy as np

import harness
from harness import check, compile_model, train, weights
from onnx_writer import model, node, value
from traps import SGD, f4, learn, near


def narrowing_cast(folder):
    """16: float to bfloat16 and back rounds to nearest even; bits by integer arithmetic."""
    x = np.random.default_rng(16).normal(size=100).astype("f4")
    x[:4] = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF], "u4").view(
        "f4"
    )  # two ties, and their neighbours
    bits = x.view("u4").astype("u8")
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype("u4").view("f4")
    graph = model(
        [
            node("Cast", ["x"], ["low"], to=16),
            node("Cast", ["low"], ["high"], to=1),
            node("Mul", ["high", "w"], ["y"]),
            node("ReduceSum", ["y"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch"])],
        [value("loss", "f4", [])],
        {"w": f4([1])},
    )
    steps, _ = learn(folder, "cast", graph, {"x": x}, "--lr", "0", "--steps", "100")
    check(
        [s["loss"] for s in steps] == expected.astype("f8").tolist(),
        f"rounded otherwise at {[i for i, s in enumerate(steps) if s['loss'] != expected[i]]}",
    )


def unused_outputs(folder):
    """37: outputs that nobody reads (dropout's mask, the norm's mean) have no buffer, or one of their own."""

    def graph(masks):
        nodes = [
            node("Mul", ["x", "w"], ["a"]),
            node("Dropout", ["a", "ratio", "train"], ["b"] + ["mask"] * masks),
            node("LayerNormalization", ["b", "scale", "shift"], ["c"] + ["mean", "inverse"] * masks, axis=-1),
        ]
        for i, op in enumerate(("Tanh", "Sigmoid", "Exp", "Softplus", "Tanh")):
            nodes.append(node(op, ["c" if i == 0 else f"t{i - 1}"], [f"t{i}"]))
        nodes += [node("Mul", ["t4", "b"], ["d"]), node("ReduceMean", ["d"], ["loss"], keepdims=0)]
        return model(
            nodes,
            [value("x", "f4", ["batch", 16])],
            [value("loss", "f4", [])],
            {
                "w": f4(np.linspace(0.5, 1.5, 16)),
                "scale": f4(np.linspace(1, 2, 16)),
                "shift": f4(np.linspace(-1, 1, 16)),
                "ratio": f4(0.25),
                "train": np.array(True),
            },
        )

    x = f4(np.random.default_rng(37).normal(size=(8, 16)))
    runs = [
        learn(folder, name, graph(masks), {"x": x}, "--lr", "1", "--steps", "4", dims=["batch=8"])
        for name, masks in (("declared", True), ("absent", False))
    ]
    check([s["loss"] for s in runs[0][0]] == [s["loss"] for s in runs[1][0]], "losses differ")
    check(all((runs[0][1][n] == runs[1][1][n]).all() for n in ("w", "scale", "shift")), "weights differ")


def softmax_by_opset(folder):
    """46: without an axis, opset 11 flattens [2, 3, 4] to [2, 12] and 13 takes the last one."""
    x = f4(np.arange(24).reshape(1, 2, 3, 4) / 10)
    for opset, expected in ((11, 0.045330), (13, 0.213838)):
        nodes = [
            node("Reshape", ["x", "shape"], ["y"]),
            node("Softmax", ["y"], ["p"]),
            node("Mul", ["p", "first"], ["q"]),
            node("Mul", ["q", "w"], ["r"]),
            node("ReduceSum", ["r"], ["loss"], keepdims=0),
        ]
        first = np.zeros((2, 3, 4), "f4")
        first[0, 0, 0] = 1
        graph = model(
            nodes,
            [value("x", "f4", ["batch", 2, 3, 4])],
            [value("loss", "f4", [])],
            {"shape": np.array([2, 3, 4]), "first": first, "w": f4([1])},
            opset=opset,
        )
        (step,), _ = learn(
            folder,
            f"softmax{opset}",
            graph,
            {"x": x},
            "--lr",
            "0",
            "--steps",
            "1",
            compile_flags=(*SGD, "--trainable", "w"),
        )
        near(step["loss"], expected, f"opset {opset}: y[0,0,0]", 2e-6)


def zero_size(folder):
    """48: reshape copies a 0 or means it; a parameter without elements trains, and the checkpoint keeps its shape."""
    nodes = [
        node("Reshape", ["empty", "s1"], ["a"]),
        node("Reshape", ["a", "s2"], ["b"], allowzero=1),
        node("ReduceSum", ["b"], ["nothing"], keepdims=0),
        node("Mul", ["x", "w"], ["y"]),
        node("ReduceSum", ["y"], ["some"], keepdims=0),
        node("Add", ["some", "nothing"], ["loss"]),
    ]
    graph = model(
        nodes,
        [value("x", "f4", ["batch", 3])],
        [value("loss", "f4", [])],
        {"empty": np.zeros((0, 8, 2), "f4"), "s1": np.array([4, 2, -1]), "s2": np.array([0, 0, 4]), "w": f4([1, 2, 3])},
    )
    (step,), final = learn(folder, "zero", graph, {"x": f4([[1, 1, 2]])}, "--lr", "1", "--steps", "1")
    near(step["loss"], 9, "the loss")
    near(final["w"], [0, 1, 1], "w")
    check(final["empty"].shape == (0, 8, 2), f"'empty' has shape {final['empty'].shape} in the checkpoint")


def overlapping_update(folder):
    """36: with b = x + 1 of x = 0..3, writing b[:3] at 1 reads what was there before: 1, 1, 2, 3."""
    graph = model(
        [
            node("Add", ["x", "one"], ["rows"]),
            node("Reshape", ["rows", "four"], ["b"]),
            node("Slice", ["b", "zero", "three"], ["head"]),
            node("ScatterND", ["b", "places", "head"], ["y"]),
            node("Mul", ["y", "w"], ["z"]),
            node("ReduceSum", ["z"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 4])],
        [value("loss", "f4", [])],
        {
            "w": f4(np.zeros(4)),
            "one": f4(1),
            "four": np.array([4]),
            "zero": np.array([0]),
            "three": np.array([3]),
            "places": np.array([[1], [2], [3]]),
        },
    )
    _, final = learn(folder, "train", graph, {"x": f4([[0, 1, 2, 3]])}, "--lr", "1", "--steps", "1")
    near(final["w"], [-1, -1, -2, -3], "the gradient, negated")


def gather_gradient(folder):
    """49: repeated and negative indices add up: row 1 gets 1 + 100, row 3 gets 10."""
    nodes = [
        node("Gather", ["table", "index"], ["rows"], axis=0),
        node("Mul", ["rows", "upstream"], ["y"]),
        node("Mul", ["y", "x"], ["z"]),
        node("ReduceSum", ["z"], ["loss"], keepdims=0),
    ]
    graph = model(
        nodes,
        [value("x", "f4", ["batch"])],
        [value("loss", "f4", [])],
        {"table": np.zeros((4, 2), "f4"), "index": np.array([1, -1, 1]), "upstream": f4([[1], [10], [100]])},
    )
    _, final = learn(
        folder,
        "gather",
        graph,
        {"x": f4([1])},
        "--lr",
        "1",
        "--steps",
        "1",
        compile_flags=(*SGD, "--trainable", "table"),
    )
    near(-final["table"], [[0, 0], [101, 101], [0, 0], [10, 10]], "the gradient")


def broadcast_matmul(folder):
    """50: A[b,3,4] times B[4,5]: dB is the sum of A^T G over the batch, of B's own shape."""
    random = np.random.default_rng(50)
    a, g = f4(random.normal(size=(2, 3, 4))), f4(random.normal(size=(3, 5)))
    nodes = [
        node("MatMul", ["a", "b"], ["c"]),
        node("Mul", ["c", "g"], ["d"]),
        node("ReduceSum", ["d"], ["loss"], keepdims=0),
    ]
    graph = model(
        nodes, [value("a", "f4", ["batch", 3, 4])], [value("loss", "f4", [])], {"b": np.zeros((4, 5), "f4"), "g": g}
    )
    _, final = learn(
        folder,
        "matmul",
        graph,
        {"a": a},
        "--lr",
        "1",
        "--steps",
        "1",
        dims=["batch=2"],
        compile_flags=(*SGD, "--trainable", "b"),
    )
    near(-final["b"], sum(x.T @ g for x in a), "the gradient")


def dropout_by_opset(folder):
    """57: training_mode true masks and scales the rest by 1/(1-p); false, absent and opset 11 are the identity."""
    x = np.ones((1, 4096), "f4")
    for name, opset, inputs, attributes, masked in (
        ("true", 13, ["x", "ratio", "yes"], {}, True),
        ("false", 13, ["x", "ratio", "no"], {}, False),
        ("absent", 13, ["x", "ratio"], {}, False),
        ("opset11", 11, ["x"], {"ratio": 0.25}, False),
    ):
        nodes = [
            node("Dropout", inputs, ["y"], **attributes),
            node("Mul", ["y", "w"], ["z"]),
            node("ReduceSum", ["z"], ["loss"], keepdims=0),
        ]
        initializers = {
            "w": np.zeros(4096, "f4"),
            **{
                n: v
                for n, v in {"ratio": f4(0.25), "yes": np.array(True), "no": np.array(False)}.items()
                if n in inputs
            },
        }
        graph = model(nodes, [value("x", "f4", ["batch", 4096])], [value("loss", "f4", [])], initializers, opset=opset)
        _, final = learn(
            folder, name, graph, {"x": x}, "--lr", "1", "--steps", "1", compile_flags=(*SGD, "--trainable", "w")
        )
        values, counts = np.unique(-final["w"], return_counts=True)
        if masked:
            near(values, [0, 4 / 3], "kept values")
            check(abs(counts[0] / 4096 - 0.25) < 0.03, f"{counts[0]} of 4096 dropped")
        else:
            check(values.tolist() == [1], f"{name}: values {values.tolist()}, expected the identity")


def stochastic_depth(folder):
    """Whole samples are dropped by a random number below a bound: the rest is scaled, and evaluation drops none."""
    graph = model(
        [
            node("Mul", ["x", "w"], ["y"]),
            node("ReduceMax", ["x"], ["shape"], axes=[1], keepdims=1),
            node("RandomUniformLike", ["shape"], ["u"]),
            node("Less", ["u", "keep"], ["below"]),
            node("Cast", ["below"], ["kept"], to=1),
            node("Div", ["kept", "keep"], ["noise"]),
            node("Mul", ["y", "noise"], ["z"]),
            node("ReduceSum", ["z"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 3])],
        [value("loss", "f4", [])],
        {"w": f4([1, 1, 1]), "keep": f4(0.5)},
        opset=15,
    )
    x = np.ones((4096, 3), "f4")
    np.save(folder / "ones.npy", x)
    steps, final = learn(
        folder, "depth", graph, {"x": x}, "--lr", "1", "--steps", "1", "--eval-data", f"x={folder}/ones.npy",
        compile_flags=(*SGD, "--trainable", "w"), dims=("batch=4096",),
    )  # fmt: skip
    kept = (1 - final["w"]) * 0.5 / 4096
    check((kept == kept[0]).all() and abs(kept[0] - 0.5) < 0.03, f"{kept} of the samples are kept")
    near(steps[0]["loss"], 3 / 0.5 * 4096 * kept[0], "the loss of the kept samples")
    evaluations = [s["eval_loss"] for s in harness.read_metrics(folder / "depth.jsonl") if "eval_loss" in s]
    near(evaluations[-1], 3 * 4096 * (1 - 4096 / 0.5 * kept[0]), "the evaluation loss")


def buffers_stay(folder):
    """60: float buffers train nowhere: no gradient, no state; those outside the state_dict are not saved."""
    cases = harness.MODELS / "cases" / "buffers"
    for variant in ("export", "dynamo18"):
        flags = () if variant == "export" else ("--loss", "cross_entropy(logits,labels)")
        compile_model(cases / f"{variant}.onnx", folder / variant, *flags)
        train(
            folder / variant,
            "--steps",
            "3",
            "--save",
            folder / f"{variant}.save",
            *harness.data_flags(cases, {"tokens": "tokens.npy", "labels": "labels.npy"}),
        )
        final, state = weights(folder / f"{variant}.save"), harness.read_safetensors(
            harness.newest(folder / f"{variant}.save") / "optimizer.safetensors"
        )
        check("causal_mask" not in final, f"{variant}: the mask is in the checkpoint")
        check(not any("inv_freq" in n or "causal_mask" in n for n in state), f"{variant}: a buffer has optimizer state")
        if "inv_freq" in final:
            near(final["inv_freq"], 10.0 ** -np.arange(4), f"{variant}: inv_freq")


if __name__ == "__main__":
    harness.main(
        [
            narrowing_cast,
            unused_outputs,
            softmax_by_opset,
            zero_size,
            overlapping_update,
            gather_gradient,
            broadcast_matmul,
            dropout_by_opset,
            stochastic_depth,
            buffers_stay,
        ]
    )
