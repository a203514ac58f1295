"""Models that are wrong inside: graphs, attributes, names, arguments of models written by hand.

python bad_models.py FOLDER [NAME ...]
"""

import numpy as np

import harness
from bad_input import BATCH, LOSS, W, X, expect, linear, mean_of, refuse
from harness import check, run
from onnx_writer import function, model, node, value


def graphs(folder):
    """Cycles, duplicates, what no table knows."""
    refuse(
        folder,
        "cycle.onnx",
        model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), mean_of("b")], [X], [LOSS]),
        "'FOLDER/cycle.onnx' has a cycle: 'a' -> 'b' -> 'a'",
        flags=BATCH,
    )
    refuse(
        folder,
        "twice.onnx",
        linear(node("Relu", ["x"], ["y"], name="second"), mean_of("y")),
        "'FOLDER/twice.onnx' defines the value 'y' twice, the second time in node 'second' (Relu)",
        flags=BATCH,
    )
    refuse(
        folder,
        "undefined.onnx",
        linear(node("Add", ["y", "nobody"], ["z"]), mean_of("z")),
        "'FOLDER/undefined.onnx' reads 'nobody' in node 'z' (Add), but nothing defines it",
        flags=BATCH,
    )
    refuse(
        folder,
        "op.onnx",
        linear(node("Frobnicate", ["y"], ["z"], name="f1"), node("Twiddle", ["z"], ["u"], name="f2"), mean_of("u")),
        "node 'f1': Frobnicate of the domain ai.onnx, opset 17, is not supported",
        "node 'f2': Twiddle of the domain ai.onnx, opset 17, is not supported",
        flags=BATCH,
    )
    refuse(
        folder,
        "domain.onnx",
        linear(node("Relu", ["y"], ["z"], domain="com.acme", name="d"), mean_of("z"), domains=[("com.acme", 1)]),
        "node 'd': Relu of the domain com.acme, opset 1, is not supported",
        flags=BATCH,
    )
    refuse(
        folder,
        "opset.onnx",
        linear(mean_of("y"), opset=99),
        "'FOLDER/opset.onnx' uses opset 99 of ai.onnx; supported are 11 to 23 (export it again "
        "with another opset_version)",
        flags=BATCH,
    )
    refuse(
        folder,
        "old.onnx",
        linear(mean_of("y"), opset=6),
        "'FOLDER/old.onnx' uses opset 6 of ai.onnx; supported are 11 to 23 (export it again with "
        "another opset_version)",
        flags=BATCH,
    )
    refuse(
        folder,
        "type.onnx",
        linear(mean_of("y"), inputs=[value("x", "complex64", ["batch", 4])]),
        "'FOLDER/type.onnx' has an input 'x' of complex64; supported are float16, bfloat16, "
        "float, double, bool, int8, int32 and int64",
        flags=BATCH,
    )
    refuse(
        folder,
        "shape.onnx",
        linear(mean_of("y"), initializers={"w": np.ones((5, 3), "f4")}),
        "node 'product' (MatMul): cannot multiply 'tensor<2x4xf32>' by 'tensor<5x3xf32>'",
        flags=BATCH,
    )
    # Case 52: malformed operands are a message with the node's name.
    refuse(
        folder,
        "gemm.onnx",
        linear(
            node("ReduceMean", ["y"], ["r"], axes=[0, 1], keepdims=0),
            node("Gemm", ["r", "w"], ["g"], name="bad_gemm"),
            mean_of("g"),
        ),
        "node 'bad_gemm' (Gemm): input 0 ('r') has rank 0, expected 2",
        flags=BATCH,
    )
    refuse(
        folder,
        "norm.onnx",
        linear(
            node("ReduceMean", ["y"], ["r"], keepdims=0),
            node("LayerNormalization", ["r", "s"], ["n"], name="bad_norm"),
            mean_of("n"),
            initializers={**W, "s": np.ones(1, "f4")},
        ),
        "node 'bad_norm' (LayerNormalization): input 0 ('r') has rank 0, expected at least 1",
        flags=BATCH,
    )


def attributes(folder):
    """Constants and attributes that contradict the shapes they speak of."""
    picks = lambda op, indices, *more, **keywords: linear(
        node(op, ["w", "i", *more], ["p"], name="pick", **keywords),
        node("ReduceMean", ["p"], ["a"], keepdims=0),
        node("ReduceMean", ["y"], ["b"], keepdims=0),
        node("Add", ["a", "b"], ["loss"]),
        initializers={**W, "i": np.array(indices), "u": np.zeros((1, 3), "f4")},
    )
    for op, indices, more, keywords, index, dim, size in (
        ("Gather", [0, 4], (), {}, 4, 0, 4),
        ("Gather", [-1, -4], (), {"axis": 1}, -4, 1, 3),
        ("GatherElements", [[0, 1, -5]], (), {}, -5, 0, 4),
        ("GatherND", [[3, 2], [3, 3]], (), {}, 3, 1, 3),
        ("ScatterND", [[9]], ("u",), {}, 9, 0, 4),
    ):
        refuse(
            folder,
            "index.onnx",
            picks(op, indices, *more, **keywords),
            f"node 'pick' ({op}): index {index} (in 'i') is outside {-size} to {size - 1}, what dimension {dim} of 'w' "
            f"('tensor<4x3xf32>') has",
            flags=BATCH,
        )
    refuse(
        folder,
        "label.onnx",
        linear(
            node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"], name="xent", ignore_index=-100),
            initializers={**W, "labels": np.array([-100, 3])},
        ),
        "node 'xent' (SoftmaxCrossEntropyLoss): label 3 (in 'labels') is outside 0 to 2, the classes of 'y'",
        flags=BATCH,
    )
    image = value("x", "f4", ["batch", 1, 8, 8])
    for op in ("Conv", "ConvTranspose"):
        refuse(
            folder,
            "kernel.onnx",
            model(
                [node(op, ["x", "k"], ["y"], name="conv", kernel_shape=[2, 3]), mean_of("y")],
                [image],
                [LOSS],
                {"k": np.ones((1, 1, 3, 3), "f4")},
            ),
            f"node 'conv' ({op}): kernel_shape is [2, 3], but the weight 'k' ('tensor<1x1x3x3xf32>') has a kernel of "
            "[3, 3]",
            flags=BATCH,
        )
    refuse(
        folder,
        "pool.onnx",
        model(
            [
                node("Mul", ["x", "s"], ["m"]),
                node("MaxPool", ["m"], ["y"], name="pool", kernel_shape=[2]),
                mean_of("y"),
            ],
            [image],
            [LOSS],
            {"s": np.ones((8, 8), "f4")},
        ),
        "node 'pool' (MaxPool): kernel, strides, pads and dilations do not fit an input of 'tensor<2x1x8x8xf32>'",
        flags=BATCH,
    )
    for pad, keywords, message in (
        ("Conv", {"auto_pad": "SAME"}, "auto_pad is 'SAME', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"),
        ("Conv", {"group": 1.0}, "attribute 'group' is of another kind than the op's"),
        ("Conv", {"strides": 2}, "attribute 'strides' is of another kind than the op's"),
    ):
        refuse(
            folder,
            "kinds.onnx",
            model(
                [node(pad, ["x", "k"], ["y"], name="conv", **keywords), mean_of("y")],
                [image],
                [LOSS],
                {"k": np.ones((1, 1, 3, 3), "f4")},
            ),
            f"node 'conv' ({pad}): {message}",
            flags=BATCH,
        )
    for keywords, message in (
        ({"blocksize": 2, "mode": "RCD"}, "mode is 'RCD', expected DCR or CRD"),
        (
            {"blocksize": 1 << 32},
            "an input of 'tensor<2x1x8x8xf32>' does not fit blocks of 4294967296",
        ),
    ):
        refuse(
            folder,
            "depth.onnx",
            model(
                [
                    node("Mul", ["x", "s"], ["m"]),
                    node("DepthToSpace", ["m"], ["y"], name="depth", **keywords),
                    mean_of("y"),
                ],
                [image],
                [LOSS],
                {"s": np.ones((8, 8), "f4")},
            ),
            "node 'depth' (DepthToSpace): " + message,
            flags=BATCH,
        )
    for keywords, message in (
        ({"mode": "area"}, "mode is 'area', expected nearest, linear or cubic"),
        ({"nearest_mode": "up"}, "nearest_mode 'up' is not supported"),
        (
            {"keep_aspect_ratio_policy": "larger"},
            "keep_aspect_ratio_policy is 'larger', expected stretch, not_larger or not_smaller",
        ),
    ):
        refuse(
            folder,
            "resize.onnx",
            model(
                [
                    node("Mul", ["x", "s"], ["m"]),
                    node("Resize", ["m", "", "", "sizes"], ["y"], name="resize", axes=[2, 3], **keywords),
                    mean_of("y"),
                ],
                [image],
                [LOSS],
                {"s": np.ones((8, 8), "f4"), "sizes": np.array([4, 4], "i8")},
                opset=18,
            ),
            "node 'resize' (Resize): " + message,
            flags=BATCH,
        )
    for keywords, message in (
        (
            {"hidden_size": 5},
            "hidden_size is 5, but the weight 'r' ('tensor<1x16x4xf32>') has 4",
        ),
        (
            {"hidden_size": 4, "direction": "backward"},
            "direction is 'backward', expected forward, reverse or bidirectional",
        ),
    ):
        refuse(
            folder,
            "lstm.onnx",
            model(
                [node("LSTM", ["x", "k", "r"], ["y"], name="lstm", **keywords), mean_of("y")],
                [value("x", "f4", [3, "batch", 2])],
                [LOSS],
                {"k": np.ones((1, 16, 2), "f4"), "r": np.ones((1, 16, 4), "f4")},
            ),
            "node 'lstm' (LSTM): " + message,
            flags=BATCH,
        )
    rest = (node("ReduceSum", ["r"], ["q"], keepdims=0), node("Mul", ["y", "q"], ["z"]), mean_of("z"))
    for nodes, initializers, message in (
        (
            [node("Range", ["s", "l", "d"], ["r"], name="n"), *rest],
            {"s": np.float32(0), "l": np.float32(np.inf), "d": np.float32(1)},
            "(Range): from 0.000000e+00 to INF by 1.000000e+00 are too many numbers, expected at most 16777216",
        ),
        (
            [node("Split", ["y", "s"], ["z", "u"], name="n", axis=1), mean_of("z")],
            {"s": np.array([-1, 4])},
            "(Split): a part is -1, but the dimension is 3",
        ),
        (
            [node("Pad", ["y", "s"], ["z"], name="n"), mean_of("z")],
            {"s": np.array([0, 1 << 62, 0, 1 << 62])},
            "(Pad): dimension 1 of 3 cannot be padded by 4611686018427387904 and 4611686018427387904",
        ),
        (
            [node("Dropout", ["y", "s", "t"], ["z"], name="n"), mean_of("z")],
            {"s": np.float32(np.nan), "t": np.array(True)},
            "(Dropout): the ratio is nan, expected one in [0, 1)",
        ),
    ):
        refuse(
            folder, "value.onnx", linear(*nodes, initializers={**W, **initializers}), f"node 'n' {message}", flags=BATCH
        )
    # What nobody reads is told.
    (folder / "unknown.onnx").write_bytes(linear(node("Relu", ["y", "w"], ["z"], slope=0.5), mean_of("z")))
    compiled = run(["scrimp-plan", folder / "unknown.onnx", *BATCH])
    check(
        compiled.stderr == "scrimp-plan: note: attribute 'slope' of Relu nodes is not looked at (first in 'z')\n"
        "scrimp-plan: note: input 1 of Relu nodes is not looked at (first in 'z')\n",
        compiled.stderr,
    )
    # A table of one row an index: its depth may not be what the data say, nor without bound.
    refuse(
        folder,
        "depth.onnx",
        linear(
            node("OneHot", ["i", "depth", "values"], ["hot"], name="hot", axis=-1),
            node("MatMul", ["hot", "y"], ["z"]),
            mean_of("z"),
            initializers={**W, "i": np.array([0]), "depth": np.array(1 << 40), "values": np.array([0, 1], "f4")},
        ),
        "node 'hot' (OneHot): the depth is 1.099512e+12, expected 0 to 1073741824",
        flags=BATCH,
    )
    # Each function calls the one before twice: 2^20 calls from a small file.
    functions = [function("F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])])]
    for i in range(1, 21):
        call = lambda a, b: node(f"F{i - 1}", [a], [b], domain="local")
        functions.append(function(f"F{i}", ["a"], ["b"], [call("a", "t"), call("t", "b")]))
    refuse(
        folder,
        "calls.onnx",
        linear(node("F20", ["y"], ["z"], domain="local"), mean_of("z"), functions=functions, domains=[("local", 1)]),
        "'FOLDER/calls.onnx' calls local functions more than 16384 times, in the end 'F1'",
        flags=BATCH,
    )


def by_hand(folder):
    """Arguments of a model in the dialect: roles, names, batches, initial values; all errors in one run."""
    arguments = (
        (
            "tensor<3xf32>",
            'scrimp.name = "a"',
            "'a' has no role, expected one of scrimp.input, scrimp.param, " "scrimp.state and scrimp.scalar",
        ),
        (
            "tensor<3xi32>",
            'scrimp.name = "b", scrimp.param = "trainable"',
            "'b' is a trainable parameter of 'tensor<3xi32>'; only floats can be trained",
        ),
        ("tensor<3xf32>", 'scrimp.param = "frozen"', "argument 2 has no scrimp.name"),
        (
            "tensor<0x3xf32>",
            'scrimp.name = "d", scrimp.input = 0 : i64',
            "'d' has batches of 0 samples (dimension 0 of 'tensor<0x3xf32>'), expected at least 1",
        ),
        (
            "tensor<3xf32>",
            'scrimp.name = "e", scrimp.input = 1 : i64',
            "'e' has the batch dimension 1 : i64, expected -1 (none) to 0 for 'tensor<3xf32>'",
        ),
        (
            "tensor<f32>",
            'scrimp.scalar = "temperature"',
            'argument 5 has the scrimp.scalar "temperature", which nothing gives; there are seed, step and '
            "sample_base, and the optimizer's",
        ),
        (
            "tensor<2xi64>",
            'scrimp.scalar = "step"',
            "argument 6 is the scalar 'step' but of type 'tensor<2xi64>', expected rank 0",
        ),
        ("tensor<2x3xf32>", 'scrimp.name = "g", scrimp.input = 0 : i64', None),
        (
            "tensor<3x3xf32>",
            'scrimp.name = "h", scrimp.input = 0 : i64',
            "'h' has batches of 3 samples (dimension 0 of 'tensor<3x3xf32>'), but 'g' of 2",
        ),
        (
            "tensor<2xi64>",
            'scrimp.name = "i", scrimp.input = 0 : i64, scrimp.valid = array<i64: 1>',
            "'i' has the scrimp.valid array<i64: 1>, expected array<i64: begin, end>",
        ),
        ("tensor<3xf32>", 'scrimp.name = "g", scrimp.state', "'g' has the name of another argument"),
        (
            "tensor<3xf32>",
            'scrimp.name = "j", scrimp.param = "often"',
            '\'j\' has the scrimp.param "often", expected "trainable" or "frozen"',
        ),
        (
            "tensor<3xf32>",
            'scrimp.name = "k", scrimp.state, scrimp.init = {kind = "xavier"}',
            '\'k\' has the scrimp.init {kind = "xavier"}, expected {kind = "zeros" | "ones" | "constant" | '
            '"uniform" | "normal" | "file", a = float, b = float}',
        ),
        (
            "tensor<3xf32>",
            'scrimp.name = "l", scrimp.param = "trainable", scrimp.state',
            "'l' has several roles (scrimp.param, scrimp.state), expected one of scrimp.input, scrimp.param, "
            "scrimp.state and scrimp.scalar",
        ),
        (
            "tensor<3xf32>",
            'scrimp.name = "m", scrimp.param = "frozen", scrimp.aliases = ["g"]',
            "'m' has the alias \"g\", expected a string that names nothing else",
        ),
        ("index", 'scrimp.name = "n"', "'n' is 'index', expected a tensor of static shape"),
    )
    lines = [f"  %a{i}: {kind} {{{attributes}}}" for i, (kind, attributes, _) in enumerate(arguments)]
    text = "func.func @main(\n" + ",\n".join(lines) + ') -> (tensor<3xf32> {scrimp.output = "loss"}) {\n'
    refuse(
        folder,
        "roles.mlir",
        (text + "  return %a0 : tensor<3xf32>\n}\n").encode(),
        *(f"FOLDER/roles.mlir:{2 + i}:3: {message}" for i, (_, _, message) in enumerate(arguments) if message),
    )
    results = (
        ('scrimp.output = "loss"', None),
        ('scrimp.output = "loss"', "is a second output 'loss'"),
        ("", "has neither scrimp.output nor scrimp.updates, expected one of them"),
        (
            "scrimp.updates = 0 : i64",
            "has the scrimp.updates 0 : i64, expected the number of an argument that is scrimp.state",
        ),
        ("scrimp.updates = 1 : i64", "is 'tensor<f32>', but argument 1, which it updates, is 'tensor<2xf32>'"),
    )
    types = ", ".join(f"tensor<f32> {{{attributes}}}" for attributes, _ in results)
    text = f"""func.func @main(%w: tensor<f32> {{scrimp.name = "w", scrimp.param = "trainable"}},
                %s: tensor<2xf32> {{scrimp.name = "s", scrimp.state}}) -> ({types}) {{
  return {", ".join(["%w"] * len(results))} : {", ".join(["tensor<f32>"] * len(results))}
}}
"""
    refuse(
        folder,
        "results.mlir",
        text.encode(),
        *(f"FOLDER/results.mlir:1:1: result {i} of @main {m}" for i, (_, m) in enumerate(results) if m),
    )


def names(folder):
    """Control characters in names are escaped: a message is one line, and steers no terminal. Names that checkpoints
    cannot hold are refused."""
    for name, message in (
        (b"w\xff", "'w\\xFF' has a name that is not UTF-8, which checkpoints need; rename it in the model"),
        ("__metadata__", "'__metadata__' is a name that safetensors files reserve; rename it in the model"),
    ):
        refuse(
            folder,
            "name.onnx",
            model([node("MatMul", ["x", name], ["y"]), mean_of("y")], [X], [LOSS], {name: W["w"]}),
            message,
            flags=BATCH,
        )
    refuse(
        folder,
        "clash.onnx",
        linear(node("Mul", ["y", "w.exp_avg"], ["z"]), mean_of("z"), initializers={**W, "w.exp_avg": np.ones(3, "f4")}),
        "two tensors are named 'w.exp_avg': one of the model, one that belongs to training (optimizer state takes its "
        "parameter's name and adds to it); rename it in the model",
        flags=BATCH,
    )
    for text, message in (
        ("func.func private @main()", "'FOLDER/functions.mlir' has no function @main with a body"),
        ("func.func private @other()", "'FOLDER/functions.mlir' has no function @main"),
        (
            "func.func @main() { return }\nfunc.func private @sum()",
            "FOLDER/functions.mlir:2:1: only @main is compiled, found another func.func; inline it there",
        ),
    ):
        refuse(folder, "functions.mlir", text.encode(), message)
    evil = "x\nscrimp-compile: error: \x1b[31mgone\t"
    shown = "x\\nscrimp-compile: error: \\x1B[31mgone\\t"
    inputs = (value(evil, "f4", ["batch", 4]),)
    product = node("MatMul", [evil, "w"], ["y"], name="a\rb")
    refuse(
        folder,
        "names.onnx",
        model([product, mean_of("y")], inputs, [LOSS], {"w": np.ones((5, 3), "f4")}),
        "node 'a\\rb' (MatMul): cannot multiply 'tensor<2x4xf32>' by 'tensor<5x3xf32>'",
        flags=BATCH,
    )
    (folder / "names.onnx").write_bytes(model([product, mean_of("y")], inputs, [LOSS], W))
    harness.compile_model(folder / "names.onnx", folder / "train", *BATCH)
    expect(
        folder,
        [folder / "train", "--steps", "1"],
        f"train: error: input '{shown}' (f32 [2, 4]) has no data; give --data {shown}=FILE",
    )


if __name__ == "__main__":
    harness.main([graphs, attributes, by_hand, names])
