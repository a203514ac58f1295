"""Bad input: every message in full, a status that is not zero, and nothing left behind.

    python bad_input.py FOLDER [NAME ...]

In an expected message FOLDER stands for the test's folder, MODELS for test/models; each is one line after
"scrimp-compile: error: " or "train: error: ".
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess

import numpy as np

import harness
from harness import MODELS, check, run, train
from onnx_writer import External, function, model, node, tensor, value

MLP = {"x": "x.npy", "labels": "labels.npy"}


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*"))


def tidy(text, folder):
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER").replace(str(MODELS), "MODELS")
    return re.sub(r"\b[0-9a-f]{16}\b", "HASH", re.sub(r"\.part\.\d+", ".part.N", text))


def expect(folder, arguments, *messages, **options):
    """The program fails, stderr is exactly these lines (...: any text), and the folder holds what it held before."""
    before = listing(folder)
    result = run(arguments, ok=False, **options)
    found = tidy(result.stderr, folder).splitlines()
    expected = re.escape("\n".join(messages)).replace(r"\.\.\.", "(?s:.*)")
    check(re.fullmatch(expected, "\n".join(found)), "stderr is\n  " + "\n  ".join(found) + "\nexpected\n  " + "\n  ".join(messages))
    check(result.returncode in (1, 2) or result.returncode > 100, f"status {result.returncode}: {arguments}")
    check(result.stdout == "", f"stdout is {result.stdout}")
    check(listing(folder) == before, f"left behind: {sorted(set(listing(folder)) - set(before))}")


def refuse(folder, name, contents, *messages, flags=()):
    """scrimp-compile refuses the model file with these contents (None: no file)."""
    file = folder / name
    if contents is not None:
        file.write_bytes(contents)
    expect(
        folder,
        ["scrimp-compile", file, "-o", folder / "train", "--quiet", *flags],
        *("scrimp-compile: error: " + m for m in messages),
    )


X = value("x", "f4", ["batch", 4])
LOSS = value("loss", "f4", [])
W = {"w": np.ones((4, 3), "f4")}
BATCH = ("--dim", "batch=2")


def mean_of(name):
    return node("ReduceMean", [name], ["loss"], keepdims=0)


def linear(*more, initializers=W, inputs=(X,), outputs=(LOSS,), **keywords):
    """x times w, then `more` nodes."""
    return model(
        [node("MatMul", ["x", "w"], ["y"], name="product"), *more],
        list(inputs),
        list(outputs),
        initializers,
        **keywords,
    )


def files(folder):
    """Missing, empty, truncated, directory, another kind of file."""
    refuse(folder, "absent.onnx", None, "'FOLDER/absent.onnx' does not exist")
    refuse(folder, "empty.onnx", b"", "'FOLDER/empty.onnx' is empty; expected an ONNX model")
    whole = (MODELS / "mlp" / "export.onnx").read_bytes()
    refuse(
        folder,
        "half.onnx",
        whole[: len(whole) // 2],
        f"'FOLDER/half.onnx' is not an ONNX model, or is cut off: its {len(whole) // 2} bytes do "
        f"not parse as one",
    )
    (folder / "folder.onnx").mkdir()
    refuse(
        folder,
        "folder.onnx",
        None,
        "'FOLDER/folder.onnx' is a directory; expected an ONNX model file",
    )
    refuse(
        folder,
        "text.onnx",
        b"this is no model\n" * 20,
        "'FOLDER/text.onnx' is not an ONNX model, or is cut off: its 340 bytes do not parse as one",
    )
    refuse(folder, "absent.mlir", None, "'FOLDER/absent.mlir' does not exist")


def special_files(folder):
    """Pipes and devices are never opened: they may block, or have no end."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    for name in ("pipe.onnx", "pipe.mlir", "pipe.safetensors", "pipe.safetensors.index.json", "pipe.bin"):
        os.mkfifo(folder / name)
    wanted = {"onnx": "an ONNX model file", "mlir": "a model in the scrimp dialect"}
    for name, kind in wanted.items():
        refuse(folder, f"pipe.{name}", None, f"'FOLDER/pipe.{name}' is not a regular file; expected {kind}")
    expect(
        folder,
        ["scrimp-plan", "/dev/zero"],
        "scrimp-plan: error: '/dev/zero' is not a regular file; expected an ONNX model file",
    )
    for tool in ("scrimp-run", "scrimp-kernel-test"):
        expect(folder, [tool, folder / "pipe.mlir"], f"{tool}: error: 'FOLDER/pipe.mlir' is not a regular file")
    for name, kind in (("pipe.safetensors", "a safetensors file"), ("pipe.safetensors.index.json", "a model.safetensors.index.json")):
        refuse(
            folder,
            "good.onnx",
            None,
            f"'FOLDER/{name}' is not a regular file; expected {kind}",
            flags=(*BATCH, "--init-from", folder / name),
        )
    # Beside the model: named by its metadata, or as external data of a tensor.
    refuse(
        folder,
        "beside.onnx",
        linear(mean_of("y"), metadata=[("scrimp.weights", "pipe.safetensors")]),
        "'FOLDER/pipe.safetensors' is not a regular file; expected a safetensors file",
        flags=BATCH,
    )
    refuse(
        folder,
        "external.onnx",
        linear(mean_of("y"), initializers={"w": External("f4", [4, 3], "pipe.bin")}),
        "'FOLDER/external.onnx' initializer 'w' has its data in 'FOLDER/pipe.bin', which is not a regular file",
        flags=BATCH,
    )


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
        linear(
            node("F20", ["y"], ["z"], domain="local"), mean_of("z"), functions=functions, domains=[("local", 1)]
        ),
        "'FOLDER/calls.onnx' calls local functions more than 16384 times, in the end 'F1'",
        flags=BATCH,
    )


def by_hand(folder):
    """Arguments of a model in the dialect: roles, names, batches, initial values; all errors in one run."""
    arguments = (
        ("tensor<3xf32>", 'scrimp.name = "a"', "'a' has no role, expected one of scrimp.input, scrimp.param, "
         "scrimp.state and scrimp.scalar"),
        ("tensor<3xi32>", 'scrimp.name = "b", scrimp.param = "trainable"',
         "'b' is a trainable parameter of 'tensor<3xi32>'; only floats can be trained"),
        ("tensor<3xf32>", 'scrimp.param = "frozen"', "argument 2 has no scrimp.name"),
        ("tensor<0x3xf32>", 'scrimp.name = "d", scrimp.input = 0 : i64',
         "'d' has batches of 0 samples (dimension 0 of 'tensor<0x3xf32>'), expected at least 1"),
        ("tensor<3xf32>", 'scrimp.name = "e", scrimp.input = 1 : i64',
         "'e' has the batch dimension 1 : i64, expected -1 (none) to 0 for 'tensor<3xf32>'"),
        ("tensor<f32>", 'scrimp.scalar = "temperature"',
         "argument 5 has the scrimp.scalar \"temperature\", which nothing gives; there are seed, step and "
         "sample_base, and the optimizer's"),
        ("tensor<2xi64>", 'scrimp.scalar = "step"',
         "argument 6 is the scalar 'step' but of type 'tensor<2xi64>', expected rank 0"),
        ("tensor<2x3xf32>", 'scrimp.name = "g", scrimp.input = 0 : i64', None),
        ("tensor<3x3xf32>", 'scrimp.name = "h", scrimp.input = 0 : i64',
         "'h' has batches of 3 samples (dimension 0 of 'tensor<3x3xf32>'), but 'g' of 2"),
        ("tensor<2xi64>", 'scrimp.name = "i", scrimp.input = 0 : i64, scrimp.valid = array<i64: 1>',
         "'i' has the scrimp.valid array<i64: 1>, expected array<i64: begin, end>"),
        ("tensor<3xf32>", 'scrimp.name = "g", scrimp.state', "'g' has the name of another argument"),
        ("tensor<3xf32>", 'scrimp.name = "j", scrimp.param = "often"',
         "'j' has the scrimp.param \"often\", expected \"trainable\" or \"frozen\""),
        ("tensor<3xf32>", 'scrimp.name = "k", scrimp.state, scrimp.init = {kind = "xavier"}',
         "'k' has the scrimp.init {kind = \"xavier\"}, expected {kind = \"zeros\" | \"ones\" | \"constant\" | "
         "\"uniform\" | \"normal\" | \"file\", a = float, b = float}"),
        ("tensor<3xf32>", 'scrimp.name = "l", scrimp.param = "trainable", scrimp.state',
         "'l' has several roles (scrimp.param, scrimp.state), expected one of scrimp.input, scrimp.param, "
         "scrimp.state and scrimp.scalar"),
        ("tensor<3xf32>", 'scrimp.name = "m", scrimp.param = "frozen", scrimp.aliases = ["g"]',
         "'m' has the alias \"g\", expected a string that names nothing else"),
        ("index", 'scrimp.name = "n"', "'n' is 'index', expected a tensor of static shape"),
    )
    lines = [f"  %a{i}: {kind} {{{attributes}}}" for i, (kind, attributes, _) in enumerate(arguments)]
    text = "func.func @main(\n" + ",\n".join(lines) + ") -> (tensor<3xf32> {scrimp.output = \"loss\"}) {\n"
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
        ("scrimp.updates = 0 : i64",
         "has the scrimp.updates 0 : i64, expected the number of an argument that is scrimp.state"),
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
        linear(
            node("Mul", ["y", "w.exp_avg"], ["z"]), mean_of("z"), initializers={**W, "w.exp_avg": np.ones(3, "f4")}
        ),
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


def training(folder):
    """Dimensions, losses, nothing to train."""
    refuse(
        folder,
        "empty_batch.onnx",
        linear(mean_of("y"), inputs=[value("x", "f4", [0, 4])]),
        "'x' has batches of 0 samples (dimension 0 of 'tensor<0x4xf32>'), expected at least 1",
    )
    refuse(
        folder,
        "misspelt.onnx",
        linear(mean_of("y")),
        "'FOLDER/misspelt.onnx' has no input 'y', which --data names; its inputs without a value are 'x'",
        flags=(*BATCH, "--data", "y"),
    )
    refuse(
        folder,
        "misspelt.onnx",
        None,
        "'FOLDER/misspelt.onnx' holds the value of 'w', which --data names; its inputs without a value are 'x'",
        flags=(*BATCH, "--data", "w"),
    )
    refuse(
        folder,
        "unbound.onnx",
        linear(mean_of("y")),
        "'FOLDER/unbound.onnx' has an input 'x' whose dimension 0, 'batch', has no size; give "
        "it one with --dim batch=N",
    )
    refuse(
        folder,
        "unbound.onnx",
        None,
        "'FOLDER/unbound.onnx' has no symbolic dimension 'sequence', which --dim names; it has "
        "'batch'",
        flags=(*BATCH, "--dim", "sequence=4"),
    )
    two = linear(node("Add", ["y", "z"], ["s"]), mean_of("s"), inputs=(X, value("z", "f4", [3, 3])))
    refuse(
        folder,
        "contradicting.onnx",
        two,
        "node 's' (Add): the inputs' shapes do not broadcast together: [2, 3] [3, 3]",
        flags=("--dim", "batch=2", "--data", "x", "--data", "z"),
    )
    refuse(
        folder,
        "vector.onnx",
        linear(node("Relu", ["y"], ["loss"]), outputs=(value("loss", "f4", ["batch", 3]),)),
        "'FOLDER/vector.onnx' has no output that is one number to take as the loss (its outputs "
        "are loss float[batch,3]); pass --loss, for example --loss 'cross_entropy(loss,labels)'",
        flags=BATCH,
    )
    refuse(
        folder,
        "frozen.onnx",
        linear(mean_of("y")),
        "'FOLDER/frozen.onnx' has nothing to train: no parameter is trainable; --trainable "
        "PATTERN makes parameters so, and weights that are graph inputs need --data to tell the data from them",
        flags=(*BATCH, "--frozen", "*"),
    )
    refuse(
        folder,
        "loss.onnx",
        linear(node("Relu", ["y"], ["logits"]), outputs=(value("logits", "f4", ["batch", 3]),)),
        "--loss 'hinge(logits,labels)' is not understood; expected cross_entropy(LOGITS,LABELS[,ignore_index=N]), "
        "mse(PREDICTION,TARGET) or bce_with_logits(PREDICTION,TARGET)",
        flags=(*BATCH, "--loss", "hinge(logits,labels)"),
    )
    refuse(
        folder,
        "loss.onnx",
        None,
        "'FOLDER/loss.onnx' has no value 'nothing', which --loss names; its outputs are logits "
        "float[batch,3]",
        flags=(*BATCH, "--loss", "mse(nothing,target)"),
    )


def outputs(folder):
    """Where the result cannot go."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    compile_ = ["scrimp-compile", good, "--quiet", *BATCH, "-o"]
    expect(
        folder,
        [*compile_, folder / "absent" / "train"],
        "scrimp-compile: error: cannot write 'FOLDER/absent/train': no folder 'FOLDER/absent'",
    )
    (folder / "taken").mkdir()
    expect(
        folder, [*compile_, folder / "taken"], "scrimp-compile: error: cannot write 'FOLDER/taken': it is a directory"
    )
    # What is no file keeps its place; a pipe stands for the devices.
    os.mkfifo(folder / "pipe")
    expect(
        folder, [*compile_, folder / "pipe"], "scrimp-compile: error: cannot write 'FOLDER/pipe': it is not a regular file"
    )
    check((folder / "pipe").is_fifo(), "the pipe is gone")
    (folder / "pipe").unlink()
    # Names that a linker or an assembler would read otherwise.
    for name in ["-x", "@x", 'a"b\\c']:
        run(["scrimp-compile", good, "--quiet", *BATCH, "-o", name], cwd=folder)
        check((folder / name).is_file(), f"no executable {name}")
        (folder / name).unlink()
    expect(
        folder,
        [*compile_, "/proc/train"],
        "scrimp-compile: error: cannot write '/proc/train.part.N.o': No such file or directory",
    )
    expect(
        folder,
        ["scrimp-plan", good, *BATCH, "--quiet", "--report", folder / "absent" / "r.json"],
        "scrimp-plan: error: cannot open output file 'FOLDER/absent/r.json': No such file or directory",
    )
    # What is read is not written over.
    for flags in (("-o", good), ("-o", folder / "new", "--report", good), ("-o", good, "--emit", "import")):
        expect(
            folder,
            ["scrimp-compile", good, "--quiet", *BATCH, *flags],
            f"scrimp-compile: error: {'--report' if '--report' in flags else '--output'} 'FOLDER/good.onnx' would replace "
            "'FOLDER/good.onnx', which the model is read from",
        )
    expect(
        folder,
        [*compile_, folder / "new", "--report", folder / "new"],
        "scrimp-compile: error: --output and --report are both 'FOLDER/new'",
    )
    check(good.read_bytes() == linear(mean_of("y")), "the model was written to")
    # A full disk, or the nearest thing that needs no rights: a bound on the size of files.
    expect(
        folder,
        [*compile_, folder / "train"],
        "scrimp-compile: error: linking 'FOLDER/train' failed: ...ile size limit exceeded...",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)),
    )


def flags(folder):
    """Flags that do not exist, or do not fit."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    compile_ = ["scrimp-compile", good, "-o", folder / "train"]
    expect(
        folder,
        [*compile_, "--frobnicate"],
        "The following argument was not expected: --frobnicate",
        "Run with --help for more information.",
    )
    expect(
        folder,
        [*compile_, "--dim", "batch"],
        "--dim: expected NAME=SIZE with a positive size, found 'batch'",
        "Run with --help for more information.",
    )
    expect(
        folder,
        [*compile_, "--optimizer", "magic"],
        "--optimizer: magic not in {adamw,adam,sgd}",
        "Run with --help for more information.",
    )
    for arguments, message in (
        (["--workers", "0"], "--workers: Value 0 not in range 1 to 4096"),
        (["--workers", "5000"], "--workers: Value 5000 not in range 1 to 4096"),
    ):
        expect(folder, [*compile_, *BATCH, *arguments], message, "Run with --help for more information.")
    for arguments, message in (
        (["--trainable", "["], "--trainable '[': invalid glob pattern, unmatched '['"),
        (["--no-decay", "["], "FOLDER/good.onnx: no-decay pattern '[': invalid glob pattern, unmatched '['"),
        (["--momentum"], "FOLDER/good.onnx: momentum and nesterov belong to sgd, not to adamw"),
        (["--optimizer", "sgd", "--nesterov"], "FOLDER/good.onnx: nesterov needs momentum"),
        (["--emit", "ptx", "--chip", "sm_12x"], "unknown GPU 'sm_12x'; expected one such as sm_80 or sm_90a"),
        (
            ["--loss", "mse(y,x)"],
            "--loss: 'y' is 'tensor<2x3xf32>', but 'x' is 'tensor<2x4xf32>'; expected 'tensor<2x3xf32>'",
        ),
    ):
        expect(folder, [*compile_, *BATCH, "--quiet", *arguments], "scrimp-compile: error: " + message)
    expect(
        folder,
        [*compile_, *BATCH, "--dim", "batch=3"],
        "--dim: 'batch' is given twice",
        "Run with --help for more information.",
    )
    expect(folder, ["scrimp-compile", good], "--output is required", "Run with --help for more information.")


def executable(folder, *compile_flags, name="train"):
    harness.compile_model(
        MODELS / "mlp" / "export.onnx", folder / name, "--dim", "batch=8", "--workers", "2", *compile_flags
    )
    return folder / name


def data_files(folder):
    """Data that does not fit the inputs."""
    program = executable(folder)
    x, labels = (np.load(MODELS / "mlp" / name) for name in MLP.values())
    good = {"x": MODELS / "mlp" / "x.npy", "labels": MODELS / "mlp" / "labels.npy"}

    def reject(message, **replaced):
        feeds = {**good, **replaced}
        arguments = [f for n, file in feeds.items() if file for f in ("--data", f"{n}={file}")]
        expect(
            folder,
            [
                program,
                "--steps",
                "5",
                "--no-shuffle",
                "--save",
                folder / "save",
                "--metrics",
                folder / "m.jsonl",
                *arguments,
            ],
            "train: error: " + message,
        )

    def save(name, array):
        np.save(folder / name, array)
        return folder / name

    reject("input 'labels' (i64 [8]) has no data; give --data labels=FILE", labels=None)
    reject("--data y: the model has no such input, its inputs are x, labels", y=good["x"])
    reject("--data x: cannot open 'FOLDER/absent.npy': No such file or directory", x=folder / "absent.npy")
    reject(
        "--data: 'FOLDER/complex.npy' has type '<c8', expected little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 "
        "or b1; convert it with numpy's astype",
        x=save("complex.npy", x.astype("c8")),
    )
    reject(
        "--data: 'FOLDER/float_labels.npy' holds f32, which does not convert to input 'labels' (i64 [8])",
        labels=save("float_labels.npy", labels.astype("f4") + 0.5),
    )
    reject(
        "--data: 'FOLDER/shape.npy' has shape [32, 15], input 'x' (f32 [8, 16]) takes [samples, 16]",
        x=save("shape.npy", x[:, :15]),
    )
    reject(
        "--data: 'MODELS/mlp/labels.npy' holds 32 samples, but 'FOLDER/length.npy' holds 31",
        x=save("length.npy", x[:31]),
    )
    reject("--data: 'FOLDER/none.npy' holds no samples", x=save("none.npy", x[:0]))
    reject(
        "--data: 'FOLDER/fortran.npy' is in Fortran order, expected C order; save numpy.ascontiguousarray of it",
        x=save("fortran.npy", np.asfortranarray(x)),
    )
    (folder / "cut.npy").write_bytes(good["x"].read_bytes()[:-4])
    reject(
        "--data: 'FOLDER/cut.npy' is truncated: [32, 16] elements of f32 need 2048 bytes, found 2044",
        x=folder / "cut.npy",
    )
    (folder / "text.txt").write_text("1 2 3\n")
    reject("--data: 'FOLDER/text.txt' is of no known kind, expected .npy, .safetensors or .bin", x=folder / "text.txt")


def label_range(folder):
    """A label outside the classes is found before the step that would use it."""
    program = executable(folder)
    labels = np.load(MODELS / "mlp" / "labels.npy")
    for number, bad in ((1, 10), (2, -1)):
        wrong = labels.copy()
        wrong[13] = bad
        np.save(folder / "labels.npy", wrong)
        result = train(
            program,
            "--steps",
            "5",
            "--no-shuffle",
            "--metrics",
            folder / "m.jsonl",
            "--data",
            f"x={MODELS}/mlp/x.npy",
            "--data",
            f"labels={folder}/labels.npy",
            ok=False,
        )
        expected = (
            f"train: error: --data: input 'labels', sample 13: value {bad} in '{folder}/labels.npy' is outside 0 to 9 "
            "(or -100, ignored)\n"
        )
        check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
        check(len(harness.read_metrics(folder / "m.jsonl")) == 1, "not found in the second step")


def not_a_number(folder):
    """A loss that is not finite stops at its step and changes nothing, or is skipped and changes nothing."""
    program = executable(folder)
    x = np.load(MODELS / "mlp" / "x.npy")
    x[12, 3] = np.nan
    np.save(folder / "x.npy", x)
    data = ["--data", f"x={folder}/x.npy", "--data", f"labels={MODELS}/mlp/labels.npy", "--no-shuffle"]
    result = train(
        program, "--steps", "4", "--metrics", folder / "m.jsonl", "--save", folder / "stopped", *data, ok=False
    )
    expected = "train: error: loss is nan at step 2; the step was not applied: lower --lr, or give --on-nan skip\n"
    check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
    check([s["step"] for s in harness.read_metrics(folder / "m.jsonl")] == [1], "the metrics hold another step")
    skipped = train(
        program,
        "--steps",
        "2",
        "--metrics",
        folder / "s.jsonl",
        "--save",
        folder / "skipped",
        "--on-nan",
        "skip",
        *data,
    )
    check(skipped.stderr == "train: warning: loss is nan at step 2; the step is skipped\n", skipped.stderr)
    last = harness.read_metrics(folder / "s.jsonl")[-1]
    check(last["loss"] is None and last["skipped"] is True, f"{last}")
    train(program, "--steps", "1", "--save", folder / "one", *data)
    harness.same_checkpoints(folder / "skipped", folder / "one", "a skipped step")
    # The run goes on, and the optimizer's own step count does not: step 3 is the second update.
    more = harness.train_steps(program, folder / "t.jsonl", "--steps", "4", "--on-nan", "skip", *data)
    check([s["loss"] is None for s in more] == [False, True, False, False], f"{[s['loss'] for s in more]}")


def checkpoints(folder):
    """Of another model, cut off, with a flipped bit: refused, and named."""
    program, other = executable(folder), folder / "other"
    harness.compile_model(MODELS / "dropout" / "export.onnx", other, "--dim", "batch=8")
    data = harness.data_flags(MODELS / "mlp", MLP)
    train(program, "--steps", "2", "--save", folder / "save", *data)
    train(other, "--steps", "2", "--save", folder / "of-other", *data)
    resume = lambda path: [
        program,
        "--steps",
        "4",
        "--metrics",
        folder / "m.jsonl",
        "--save",
        folder / "new",
        "--resume",
        path,
        *data,
    ]
    expect(
        folder,
        resume(folder / "of-other"),
        "train: error: --resume: 'FOLDER/of-other/step-000002/model.safetensors' is of another model: it lacks "
        "tensor '2.bias' (f32 [32])",
    )
    expect(
        folder,
        resume(folder / "absent"),
        "train: error: --resume: 'FOLDER/absent' is no folder, expected a checkpoint or a folder of checkpoints",
    )
    adam = executable(folder, "--optimizer", "adam", name="adam")
    expect(
        folder,
        [adam, "--steps", "4", "--resume", folder / "save", *data],
        "adam: error: --resume: the checkpoint was made with the optimizer adamw, this executable has adam; to start "
        "anew with these weights, give --init-from FOLDER/save/step-000002/model.safetensors instead of --resume",
    )
    (folder / "empty").mkdir()
    expect(
        folder,
        resume(folder / "empty"),
        "train: error: --resume: 'FOLDER/empty' holds no checkpoint: there is neither state.json nor latest",
    )
    for name, file in (("weights", "model.safetensors"), ("moments", "optimizer.safetensors"), ("state", "state.json")):
        for damage in ("cut", "flipped"):
            broken = folder / f"{name}-{damage}"
            shutil.copytree(harness.newest(folder / "save"), broken)
            raw = bytearray((broken / file).read_bytes())
            if damage == "cut":
                del raw[-5:]
            elif file == "state.json":
                at = raw.index(b'"step": 2') + 8
                raw[at] ^= 1
            else:
                raw[-5] ^= 16
            (broken / file).write_bytes(raw)
            problem = "damaged"
            if file != "state.json":
                problem = (
                    f"truncated: it has {len(raw)} bytes, expected {len(raw) + 5}"
                    if damage == "cut"
                    else "damaged: its hash is HASH, expected HASH"
                )
            expect(
                folder,
                resume(broken),
                f"train: error: --resume: 'FOLDER/{name}-{damage}/{file}' is {problem}; resume from another checkpoint",
            )
    shutil.copytree(harness.newest(folder / "save"), folder / "lacks")
    (folder / "lacks" / "optimizer.safetensors").unlink()
    expect(
        folder,
        resume(folder / "lacks"),
        "train: error: --resume: cannot open 'FOLDER/lacks/optimizer.safetensors': No such file or directory",
    )


def write_safetensors(path, tensors):
    """tensors: (name, array) pairs; a name may come twice."""
    entries, data = [], b""
    for name, array in tensors:
        kind = {"f": "F", "i": "I"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
        place = [len(data), len(data) + array.nbytes]
        entries.append(f'{json.dumps(name)}: {json.dumps({"dtype": kind, "shape": array.shape, "data_offsets": place})}')
        data += array.tobytes()
    header = ("{" + ", ".join(entries) + "}").encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def first_values(folder):
    """--init-from, when compiling and when running: values that do not fit, names that say two things."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    harness.compile_model(good, folder / "train", *BATCH)
    np.save(folder / "x.npy", np.ones((2, 4), "f4"))

    def reject(file, compiling, running, model_file=good, program="train", flags=BATCH, data=("x",)):
        compile_ = ["scrimp-compile", model_file, "-o", folder / "new", "--quiet", *flags, "--init-from", file]
        expect(folder, compile_, "scrimp-compile: error: " + compiling)
        feeds = [f for name in data for f in ("--data", f"{name}={folder}/{name}.npy")]
        expect(folder, [folder / program, "--init-from", file, *feeds], f"{program}: error: --init-from: {running}")

    large = np.ones((4, 3))
    large[2, 1] = 1e39
    reject(
        write_safetensors(folder / "large.safetensors", [("w", large)]),
        "element 7 of parameter 'w' is 1e+39, which its type in the model, f32, does not hold",
        "tensor 'w' of 'FOLDER/large.safetensors': element 7 is 1e+39, which f32 does not hold",
    )
    # What is infinite already stays so.
    large[2, 1] = np.inf
    infinite = write_safetensors(folder / "infinite.safetensors", [("w", large)])
    harness.compile_model(good, folder / "infinite", *BATCH, "--init-from", infinite)
    (folder / "infinite").unlink()
    w = np.ones((4, 3), "f4")
    twice = "'FOLDER/twice.safetensors' holds 'w' twice; it is damaged, write it again"
    reject(write_safetensors(folder / "twice.safetensors", [("w", w), ("w", 2 * w)]), twice, twice)
    index = folder / "i.safetensors.index.json"
    index.write_text('{"weight_map": {"w": "large.safetensors", "\\u0077": "infinite.safetensors"}}')
    twice = "'FOLDER/i.safetensors.index.json' holds 'w' twice; it is damaged, write it again"
    reject(index, twice, twice)

    tied, folder_of_data = MODELS / "cases" / "tied" / "export.onnx", MODELS / "cases" / "tied"
    harness.compile_model(tied, folder / "tied")
    inputs = {name: f"{name}.npy" for name in ("tokens", "labels")}
    for file in inputs.values():
        shutil.copy(folder_of_data / file, folder / file)
    train(folder / "tied", "--steps", "1", "--save", folder / "save", *harness.data_flags(folder, inputs))
    tensors = dict(harness.weights(folder / "save"))
    shutil.rmtree(folder / "save")
    write_safetensors(folder / "same.safetensors", tensors.items())
    train(folder / "tied", "--init-from", folder / "same.safetensors", *harness.data_flags(folder, inputs))
    other = np.array(tensors["head.weight"])
    other[0, 0] += 1
    parted = (
        "'{}' and '{}' are one parameter of the model, but 'FOLDER/parted.safetensors' gives them different values; "
        "leave one of them out".format("head.weight", "embedding.weight")
    )
    reject(
        write_safetensors(folder / "parted.safetensors", {**tensors, "head.weight": other}.items()),
        parted,
        parted,
        tied,
        "tied",
        (),
        inputs,
    )


def saving(folder):
    """A folder that cannot be written, and a disk that fills up while saving: earlier checkpoints stay whole."""
    program = executable(folder)
    data = harness.data_flags(MODELS / "mlp", MLP)
    run_ = lambda where, *more: [program, "--steps", "4", "--save", where, *data, *more]
    (folder / "file").write_text("")
    expect(folder, run_(folder / "file"), "train: error: --save: cannot create 'FOLDER/file': Not a directory")
    expect(folder, run_("/proc/save"), "train: error: --save: cannot create '/proc/save': No such file or directory")
    expect(
        folder,
        run_(folder / "ok", "--metrics", folder / "absent" / "m.jsonl"),
        "train: error: --metrics: cannot write 'FOLDER/absent/m.jsonl': No such file or directory",
    )
    expect(folder, run_(folder / "ok", "--metrics", "/dev/full"), "train: error: --metrics: cannot write '/dev/full': "
           "No space left on device")
    shutil.rmtree(folder / "ok", ignore_errors=True)
    shutil.copy(MODELS / "mlp" / "x.npy", folder / "x.npy")
    expect(
        folder,
        [program, "--steps", "1", "--data", f"x={folder}/x.npy", "--data", data[-1], "--metrics", folder / "x.npy"],
        "train: error: --metrics: 'FOLDER/x.npy' is a file that this run reads; name another",
    )
    check((folder / "x.npy").read_bytes() == (MODELS / "mlp" / "x.npy").read_bytes(), "the data were written to")
    train(program, "--steps", "2", "--save", folder / "full", *data)
    before = listing(folder / "full")
    size = (harness.newest(folder / "full") / "model.safetensors").stat().st_size
    result = run(
        run_(folder / "full"),
        ok=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2)),
    )
    check(
        tidy(result.stderr, folder) == "train: error: --save: checkpoint of step 4 was not saved: cannot write "
        "'FOLDER/full/.tmp-step-000004/model.safetensors': File too large; earlier checkpoints are intact\n",
        result.stderr,
    )
    check(listing(folder / "full") == before, f"the folder holds {listing(folder / 'full')}")
    train(program, "--steps", "3", "--resume", folder / "full", *data)


def full_disk(folder):
    """The same on a file system that is full; needs to be root to mount one."""
    mounted = folder / "disk"
    mounted.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=240k", "tmpfs", mounted], stderr=subprocess.DEVNULL
        ).returncode
    ):
        return "not tried: cannot mount"
    try:
        program = executable(folder)
        data = harness.data_flags(MODELS / "mlp", MLP)
        train(program, "--steps", "1", "--save", mounted / "save", *data)
        before = listing(mounted)
        result = train(program, "--steps", "30", "--save-every", "1", "--save", mounted / "save", *data, ok=False)
        error = re.sub(r"\d{6}/\w+\.\w+", "N/FILE", re.sub(r"step \d+", "step N", tidy(result.stderr, folder)))
        check(
            error == "train: error: --save: checkpoint of step N was not saved: cannot write "
            "'FOLDER/disk/save/.tmp-step-N/FILE': No space left on device; earlier checkpoints are intact\n",
            result.stderr,
        )
        check("save/step-000001/state.json" in listing(mounted), f"the disk holds {listing(mounted)}, before {before}")
        check(not [p for p in listing(mounted) if ".tmp" in p], f"left behind: {listing(mounted)}")
        train(program, "--steps", "1", "--resume", mounted / "save" / "step-000001", *data)
        shutil.rmtree(mounted / "save")
        model_file = MODELS / "mlp" / "export.onnx"
        compiled = harness.compile_model(model_file, mounted / "train", "--dim", "batch=8", ok=False)
        check(
            re.fullmatch(
                r"scrimp-compile: error: linking 'FOLDER/disk/train' failed: .*: No space left on device; collect2: "
                r"error: .*\n",
                tidy(compiled.stderr, folder),
            ),
            compiled.stderr,
        )
        check(listing(mounted) == [], f"left behind: {listing(mounted)}")
    finally:
        subprocess.run(["umount", mounted])


def run_time_flags(folder):
    """Unknown flags, values out of range, and what the executable was compiled without."""
    program, sgd = executable(folder), executable(folder, "--optimizer", "sgd", name="sgd")
    data = harness.data_flags(MODELS / "mlp", MLP)
    for arguments, message in (
        (["--frobnicate"], "The following argument was not expected: --frobnicate; see --help"),
        (["--steps", "-1"], "--steps is -1, expected 0 to 281474976710656"),
        (["--lr", "-1"], "--lr is -1, expected a finite number from 0 up"),
        (["--lr", "inf"], "--lr is inf, expected a finite number from 0 up"),
        (["--lr", "nan"], "--lr is nan, expected a finite number from 0 up"),
        (["--lr-min", "inf"], "--lr-min is inf, expected a finite number from 0 up"),
        (["--beta1", "1"], "--beta1 is 1, expected a number from 0 to below 1"),
        (["--beta2", "-0.1"], "--beta2 is -0.1, expected a number from 0 to below 1"),
        (["--beta2", "nan"], "--beta2 is nan, expected a number from 0 to below 1"),
        (["--eps", "-1e-8"], "--eps is -1e-08, expected a finite number from 0 up"),
        (["--weight-decay", "-1"], "--weight-decay is -1, expected a finite number from 0 up"),
        (["--weight-decay", "inf"], "--weight-decay is inf, expected a finite number from 0 up"),
        (["--threads", "0"], "--threads is 0, expected 1 to 2"),
        (
            ["--clip-norm", "1"],
            "--clip-norm: this executable was compiled without clip_norm (its optimizer is adamw); recompile with "
            "--clip-grad-norm",
        ),
        (
            ["--momentum", ".9"],
            "--momentum: this executable was compiled without momentum (its optimizer is adamw); recompile with "
            "--optimizer sgd --momentum",
        ),
        (["--steps", "1", "--epochs", "1"], "--steps and --epochs are both given; give one"),
        (["--save-every", "5"], "--save-every needs --save DIR"),
        (["--lr-schedule", "magic"], "--lr-schedule is 'magic', expected constant, linear or cosine"),
    ):
        expect(folder, [program, *data, *arguments], "train: error: " + message)
    clipped = executable(folder, "--clip-grad-norm", name="clipped")
    for bound in ("0", "-1", "nan"):
        expect(
            folder,
            [clipped, *data, "--clip-norm", bound],
            f"clipped: error: --clip-norm is {bound}, expected a number above 0 (inf: without a bound)",
        )
    train(clipped, *data, "--steps", "1", "--clip-norm", "inf")
    nesterov = executable(folder, "--optimizer", "sgd", "--momentum", "--nesterov", name="nesterov")
    expect(
        folder,
        [nesterov, *data, "--momentum", "-1"],
        "nesterov: error: --momentum is -1, expected a finite number from 0 up",
    )
    expect(
        folder,
        [nesterov, *data, "--dampening", ".1"],
        "nesterov: error: --dampening: this executable was compiled without dampening (its optimizer is sgd); "
        "recompile with --optimizer sgd --momentum, without --nesterov",
    )
    expect(
        folder,
        [sgd, *data, "--beta1", ".9"],
        "sgd: error: --beta1: this executable was compiled without beta1 (its optimizer is sgd); recompile with "
        "--optimizer adam or adamw",
    )


if __name__ == "__main__":
    harness.main(
        [
            files,
            special_files,
            graphs,
            attributes,
            by_hand,
            names,
            training,
            outputs,
            flags,
            data_files,
            label_range,
            not_a_number,
            checkpoints,
            first_values,
            saving,
            full_disk,
            run_time_flags,
        ]
    )
