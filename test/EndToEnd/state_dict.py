"""What comes from a model's state_dict and goes back into it, on models as scrimp-export writes them, beside NumPy.

python state_dict.py FOLDER [NAME ...]
"""

import json
import os

import numpy as np

import harness
from bad_input import expect
from harness import check, compile_model, run, train, write_safetensors
from onnx_writer import External, model, node, value

SGD = ("--optimizer", "sgd")


def export(path, nodes, inputs, kinds, tensors, outputs=("loss",), ties=None, initializers=None, **metadata):
    """An ONNX file with its weights beside it. kinds: scrimp.parameters; tensors: of the weights file."""
    kind = lambda array: "bool" if array.dtype == bool else array.dtype.str[1:]
    parameters = [value(n, kind(a), list(a.shape)) for n, a in tensors if n not in (ties or {})]
    told = {"version": "1", "weights": path.with_suffix(".safetensors").name, **metadata}
    told["parameters"], told["ties"] = json.dumps(kinds), json.dumps(ties or {})
    path.write_bytes(
        model(
            nodes,
            [*inputs, *parameters],
            [value(o, "f4", []) for o in outputs],
            initializers,
            metadata=[(f"scrimp.{k}", v) for k, v in told.items()],
        )
    )
    write_safetensors(path.with_suffix(".safetensors"), tensors)
    return path


def total(source, result="loss"):
    return node("ReduceSum", [source], [result], keepdims=0)


def padding(folder):
    """The padding row is read as it is and gets no gradient, however the file tells of it; also through its tie."""
    table = np.arange(1, 13, dtype=np.float32).reshape(6, 2) / 8
    ids, scale = np.array([[4, 1, 4], [0, 4, 5]]), np.array([[2.0], [3.0], [5.0]], np.float32)
    np.save(folder / "ids.npy", ids)
    torch_call = (
        "%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%p_w, %ids{}), "
        "kwargs = {{}})"
    )
    for name, metadata, padded in (
        ("scrimp", [("scrimp.padding_idx", "4")], 4),
        ("torch", [("pkg.torch.onnx.fx_node", torch_call.format(", 4"))], 4),
        ("none", [("pkg.torch.onnx.fx_node", torch_call.format(""))], None),
        ("minus", [("pkg.torch.onnx.fx_node", torch_call.format(", -1"))], None),
    ):
        file = export(
            folder / f"{name}.onnx",
            [
                node("Gather", ["table", "ids"], ["rows"], metadata=metadata),
                node("Mul", ["rows", "rows"], ["squares"]),
                node("Mul", ["squares", "scale"], ["scaled"]),
                total("scaled"),
            ],
            [value("ids", "i8", [2, 3])],
            {"table": {"kind": "parameter"}},
            [("table", table)],
            initializers={"scale": scale},
        )
        compile_model(file, folder / name, *SGD, "--trainable", "table", "--frozen", "scale")
        train(folder / name, "--data", f"ids={folder}/ids.npy", "--steps", "1", "--lr", "1", "--save", folder / "save")
        gradient = np.zeros_like(table)
        for row, factor in zip(ids.reshape(-1), np.tile(scale, (2, 1))):
            gradient[row] += 2 * factor * table[row] * (row != padded)
        found = harness.weights(folder / "save")["table"]
        check(np.array_equal(found, table - gradient), f"{name}: {found.tolist()}, not {(table - gradient).tolist()}")
        check(padded is None or np.array_equal(found[4], table[4]), f"{name}: the padding row moved")
    expect(
        folder,
        ["scrimp-compile", outside(folder, table), "-o", folder / "train", *SGD],
        "scrimp-compile: error: node 'rows' (Gather): has the padding row 6, but only 6 rows",
    )


def outside(folder, table):
    gather = node("Gather", ["table", "ids"], ["rows"], metadata=[("scrimp.padding_idx", "6")])
    kinds = {"table": {"kind": "parameter"}}
    return export(folder / "six.onnx", [gather, total("rows")], [value("ids", "i8", [2])], kinds, [("table", table)])


BUFFERS = [
    ("position_ids", np.arange(5)[None]),
    ("mask", np.tri(3, dtype=bool)),
    ("scale", np.array([0.5, 2.0], np.float32)),
    ("doubles", np.array([1 / 3])),
    ("bytes", np.array([1, 200], np.uint8)),
    ("shorts", np.array([[-300, 7]], np.int16)),
    ("count", np.array(7)),
    ("nothing", np.zeros((0, 3), np.float32)),
]


def buffered(folder, buffers=BUFFERS, name="buffered"):
    """w * scale, where scale is a buffer, and others that no node reads."""
    kinds = {n: {"kind": "buffer", "persistent": True} for n, _ in buffers}
    kinds["shift"] = {"kind": "buffer", "persistent": False}
    return export(
        folder / f"{name}.onnx",
        [node("Mul", ["w", "scale"], ["a"]), node("Add", ["a", "shift"], ["b"]), total("b")],
        [],
        {"w": {"kind": "parameter"}, **kinds},
        [("w", np.array([1.0, 2.0], np.float32)), *buffers, ("tied.count", np.array(7))],
        ties={"tied.count": "count"},
        initializers={"shift": np.ones(2, np.float32)},
    )


def same(found, expected, what):
    check(found.keys() == expected.keys(), f"{what}: {sorted(found)}, expected {sorted(expected)}")
    for name, array in expected.items():
        check(
            found[name].dtype == array.dtype
            and found[name].shape == array.shape
            and np.array_equal(found[name], array),
            f"{what}: '{name}' is {found[name]!r}, expected {array!r}",
        )


def carried(folder):
    """A checkpoint holds every entry of the state_dict, in its type, and nothing else; none takes a byte of the arena."""
    file = buffered(folder)
    compile_model(file, folder / "train", *SGD)
    expected = dict(BUFFERS) | {"tied.count": np.array(7), "w": np.array([0.5, 0.0], np.float32)}
    steps = harness.train_steps(
        folder / "train", folder / "m.jsonl", "--steps", "1", "--lr", "1", "--save", folder / "save"
    )
    check(steps[0]["loss"] == 6.5, f"loss {steps[0]['loss']}")
    same(harness.weights(folder / "save"), expected, "a checkpoint")
    # Resumed, and begun anew from other values, which the next checkpoint has then.
    train(folder / "train", "--steps", "2", "--resume", folder / "save", "--save", folder / "again")
    same(harness.weights(folder / "again"), expected | {"w": np.array([0.0, -2.0], np.float32)}, "a resumed run")
    other = {n: np.flip(a).copy() if a.ndim else a + a.dtype.type(1) for n, a in expected.items()}
    weights = write_safetensors(folder / "other.safetensors", list(other.items()))
    train(folder / "train", "--steps", "0", "--init-from", weights, "--save", folder / "other")
    same(harness.weights(folder / "other"), other, "--init-from of the executable")
    compile_model(file, folder / "else", *SGD, "--init-from", weights)
    train(folder / "else", "--steps", "0", "--save", folder / "else-save")
    same(harness.weights(folder / "else-save"), other, "--init-from of the compiler")
    few = write_safetensors(folder / "few.safetensors", [("w", expected["w"])])
    train(folder / "train", "--steps", "0", "--init-from", few, "--save", folder / "few")
    same(harness.weights(folder / "few"), expected, "weights without the buffers")
    without = buffered(folder, [b for b in BUFFERS if b[0] in ("scale", "count")], "without")
    plans = [run(["scrimp-plan", f, *SGD, "--quiet"]).stdout.splitlines()[0] for f in (without, file)]
    check(plans[0] == plans[1], f"carrying takes memory: {plans}")
    wrong = write_safetensors(folder / "wrong.safetensors", [("w", expected["w"]), ("count", np.arange(2))])
    expect(
        folder,
        [folder / "train", "--steps", "0", "--init-from", wrong],
        "train: error: --init-from: 'FOLDER/wrong.safetensors' has tensor 'count' of shape [2], the model's is []",
    )
    expect(
        folder,
        ["scrimp-compile", file, "-o", folder / "new", "--quiet", "--init-from", wrong],
        "scrimp-compile: error: 'count' in 'FOLDER/wrong.safetensors' has shape [2], the model needs []",
    )


def signed(folder):
    """torch's dynamo exporter tells by its signature which buffers the state_dict holds, read by a node or not."""
    stored = {"w": np.array([1.0, 2.0], np.float32), "scale": np.array([0.5, 2.0], np.float32), "count": np.array(7)}
    entries = ["p_w: PARAMETER target='w'"]
    entries += [f"b_{n}: BUFFER target='{n}' persistent={n != 'shift'}" for n in ("scale", "count", "shift")]
    signature = "\n".join(["", "# inputs", *entries, "", "# outputs", "loss: USER_OUTPUT", ""])
    nodes = [node("Mul", ["w", "scale"], ["a"]), node("Add", ["a", "shift"], ["b"]), total("b")]
    file = folder / "signed.onnx"
    file.write_bytes(
        model(
            nodes,
            [],
            [value("loss", "f4", [])],
            {**stored, "shift": np.ones(2, np.float32)},
            metadata=[("pkg.torch.export.ExportedProgram.graph_signature", signature)],
        )
    )
    compile_model(file, folder / "train", *SGD)
    train(folder / "train", "--steps", "1", "--lr", "1", "--save", folder / "save")
    same(harness.weights(folder / "save"), stored | {"w": np.array([0.5, 0.0], np.float32)}, "a checkpoint")


def two(folder, names=("fc.weight", "fc.bias"), **options):
    """A model of two vectors under these names."""
    kinds = {n: {"kind": "parameter"} for n in names}
    tensors = [(n, np.array([i + 1.0, 2.0], np.float32)) for i, n in enumerate(names)]
    nodes = [node("Mul", list(names), ["product"]), node("Exp", ["product"], ["exp"]), total("exp")]
    return export(folder / "two.onnx", nodes, [], kinds, tensors, **options)


def prefixes(folder):
    """Weights under a wrapper's prefix: the message has the flag that takes them."""
    compile_model(two(folder), folder / "train", *SGD)
    new = np.array([3.0, 4.0], np.float32)
    for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
        names = [prefix + n for n in ("fc.weight", "fc.bias")]
        weights = write_safetensors(folder / "w.safetensors", [(n, new) for n in names])
        for arguments, speaker in (
            (
                [folder / "train", "--steps", "1"],
                "train: error: --init-from: 'FOLDER/w.safetensors' lacks 'fc.weight', " "'fc.bias', but has 2 of 2",
            ),
            (
                ["scrimp-compile", two(folder), "-o", folder / "new", "--quiet"],
                "scrimp-compile: error: "
                "'FOLDER/w.safetensors' has no tensor 'fc.bias' (and 1 more), but has all of them",
            ),
        ):
            if speaker.startswith("scrimp"):
                speaker = speaker.replace("'fc.bias'", "'fc.weight'")
            message = f"{speaker} under another prefix; --init-rename {prefix}= takes them"
            expect(folder, [*arguments, "--init-from", weights], message)
        rename = ("--init-from", weights, "--init-rename", f"{prefix}=")
        train(folder / "train", "--steps", "0", *rename, "--save", folder / "save")
        compile_model(two(folder), folder / "renamed", *SGD, *rename)
        train(folder / "renamed", "--steps", "0", "--save", folder / "save-renamed")
        for save in ("save", "save-renamed"):
            same(harness.weights(folder / save), {"fc.weight": new, "fc.bias": new}, prefix)
    # The other way round: a model in a wrapper, weights of what it wraps.
    weights = write_safetensors(folder / "w.safetensors", [("fc.weight", new), ("fc.bias", new)])
    wrapped = two(folder, ("module.fc.weight", "module.fc.bias"))
    compile_model(wrapped, folder / "wrapped", *SGD)
    expect(
        folder,
        [folder / "wrapped", "--steps", "0", "--init-from", weights],
        "wrapped: error: --init-from: 'FOLDER/w.safetensors' lacks 'module.fc.weight', 'module.fc.bias', but has 2 of 2 "
        "under another prefix; --init-rename =module. takes them",
    )
    train(
        folder / "wrapped",
        "--steps",
        "0",
        "--init-from",
        weights,
        "--init-rename",
        "=module.",
        "--save",
        folder / "save",
    )
    same(harness.weights(folder / "save"), {"module.fc.weight": new, "module.fc.bias": new}, "wrapped")
    # No one prefix: plain names of what is missing.
    weights = write_safetensors(folder / "w.safetensors", [("a.fc.weight", new), ("b.fc.bias", new)])
    expect(
        folder,
        [folder / "train", "--steps", "0", "--init-from", weights],
        "train: error: --init-from: 'FOLDER/w.safetensors' lacks 'fc.weight', 'fc.bias'",
    )
    for text in ("module.", "=", "a=a"):
        expect(
            folder,
            [folder / "train", "--steps", "0", "--init-from", weights, "--init-rename", text],
            f"train: error: --init-rename is '{text}', expected FROM=TO, one of which may be empty",
        )
        expect(
            folder,
            ["scrimp-compile", two(folder), "-o", folder / "new", "--init-from", weights, "--init-rename", text],
            f"scrimp-compile: error: --init-rename: expected FROM=TO, one of which may be empty, found '{text}'; see --help",
        )


def pickles(folder):
    """torch.save's files, by either of its formats, are called what they are."""
    compile_model(two(folder), folder / "train", *SGD)
    for name, start in (("zip.pt", b"PK\x03\x04\x00\x00\x08\x08"), ("old.pt", b"\x80\x02\x8a\x0al\xfc\x9cF")):
        (folder / name).write_bytes(start + bytes(100))
        what = (
            f"'FOLDER/{name}' is a PyTorch pickle (torch.save), which may run code when it is opened; save its tensors by "
            "safetensors.torch.save_file"
        )
        expect(
            folder,
            [folder / "train", "--steps", "0", "--init-from", folder / name],
            f"train: error: --init-from: {what}",
        )
        compile_ = ["scrimp-compile", "-o", folder / "new", "--quiet"]
        expect(folder, [*compile_, two(folder), "--init-from", folder / name], f"scrimp-compile: error: {what}")
        expect(
            folder,
            [*compile_, folder / name],
            f"scrimp-compile: error: 'FOLDER/{name}' is a PyTorch pickle (torch.save), which holds weights but no graph; "
            "export the module with scrimp-export, and give weights to --init-from as safetensors",
        )


def links(folder):
    """Weights behind a link that leads out of the model's folder, as in Hugging Face's cache, need --follow-links."""
    (folder / "blobs").mkdir()
    (folder / "snapshot").mkdir()
    os.rename(two(folder), folder / "snapshot" / "two.onnx")
    os.rename(folder / "two.safetensors", folder / "blobs" / "a1")
    file, weights = folder / "snapshot" / "two.onnx", folder / "snapshot" / "two.safetensors"
    compile_ = ["scrimp-compile", file, "-o", folder / "train", "--quiet", *SGD]
    missing = (
        "scrimp-compile: error: 'FOLDER/snapshot/two.onnx' has its weights in 'FOLDER/snapshot/two.safetensors', which "
    )
    advice = "does not exist; put it beside the model, or export with --no-weights"
    expect(folder, compile_, missing + advice)
    os.symlink("../blobs/gone", weights)
    expect(folder, compile_, missing + advice)
    weights.unlink()
    os.symlink("../blobs/a1", weights)
    is_link = "is a link to 'FOLDER/blobs/a1', outside the model's folder 'FOLDER/snapshot'; --follow-links allows it"
    expect(folder, compile_, missing + is_link)
    run([*compile_, "--follow-links"])
    # ONNX's own external data, of a model that is a link itself.
    nodes = [node("Mul", ["w", "w"], ["s"]), total("s")]
    (folder / "blobs" / "b2").write_bytes(
        model(nodes, [], [value("loss", "f4", [])], {"w": External("f4", [2], "model.onnx_data")})
    )
    (folder / "blobs" / "a1").write_bytes(np.array([1, 2], np.float32).tobytes())
    os.symlink("../blobs/b2", folder / "snapshot" / "model.onnx")
    os.symlink("../blobs/a1", folder / "snapshot" / "model.onnx_data")
    compile_[1] = folder / "snapshot" / "model.onnx"
    expect(
        folder,
        compile_,
        "scrimp-compile: error: 'FOLDER/snapshot/model.onnx' initializer 'w' has external data in "
        "'FOLDER/snapshot/model.onnx_data', which " + is_link,
    )
    run([*compile_, "--follow-links"])
    # A link that stays inside is no matter.
    os.symlink("two.onnx", folder / "snapshot" / "same.onnx")
    weights.unlink()
    write_safetensors(
        folder / "snapshot" / "real.safetensors",
        [("fc.weight", np.zeros(2, np.float32)), ("fc.bias", np.zeros(2, np.float32))],
    )
    os.symlink("real.safetensors", weights)
    compile_[1] = folder / "snapshot" / "same.onnx"
    run(compile_)


def patterns(folder):
    """Of --frozen's and --trainable's patterns the one with the most literal characters decides; a tie is an error."""
    names = ("h.0.weight", "h.0.lora_a", "h.1.lora_a")
    zeros = [(n, np.zeros(2, np.float32)) for n in names]
    nodes = [node("Mul", list(names[:2]), ["p"]), node("Mul", ["p", names[2]], ["q"]), total("q")]
    file = export(folder / "lora.onnx", nodes, [], {n: {"kind": "parameter"} for n in names}, zeros)

    def trained(*flags):
        text = run(["scrimp-compile", file, "--emit", "import", "-o", "-", *flags]).stdout
        return {n for n in names if f'scrimp.name = "{n}", scrimp.param = "trainable"' in text}

    for flags, expected in (
        (["--frozen", "*", "--trainable", "*lora_*"], names[1:]),
        (["--trainable", "*", "--frozen", "*lora_*"], names[:1]),
        (["--frozen", "*lora_*", "--trainable", "h.1.lora_*"], (names[0], names[2])),
        (
            ["--frozen", "h.?.lora_a", "--trainable", "h.[0-9].lora_a*", "--trainable", "h.1.lora_a"],
            (names[0], names[2]),
        ),
    ):
        if flags[-1] == "h.1.lora_a":
            expect(
                folder,
                ["scrimp-compile", file, "-o", folder / "train", "--quiet", *flags],
                "scrimp-compile: error: 'h.0.lora_a' is matched by --frozen 'h.?.lora_a' and by --trainable "
                "'h.[0-9].lora_a*', which have as many literal characters; the more exact pattern decides, so make one "
                "of them longer",
            )
            continue
        check(trained(*flags) == set(expected), f"{flags}: {trained(*flags)}, expected {expected}")


def unused(folder):
    """An input that no node reads may be fed, or not; a misspelt one may not."""
    nodes = [node("Mul", ["x", "w"], ["y"]), total("y"), node("Neg", ["mask"], ["m"]), total("m", "other")]
    inputs = [value("x", "f4", [2, 2]), value("mask", "f4", [2, 5])]
    kinds, w = {"w": {"kind": "parameter"}}, [("w", np.ones(2, np.float32))]
    file = export(folder / "unused.onnx", nodes, inputs, kinds, w, outputs=("loss", "other"), loss="loss")
    compile_model(file, folder / "train", *SGD)
    np.save(folder / "x.npy", np.ones((2, 2), np.float32))
    x = ["--data", f"x={folder}/x.npy", "--steps", "1"]
    train(folder / "train", *x)
    train(folder / "train", *x, "--data", f"mask={folder}/x.npy")
    expect(
        folder,
        [folder / "train", *x, "--data", f"musk={folder}/x.npy"],
        "train: error: --data musk: the model has no such input, its inputs are x",
    )


def losses(folder):
    """--loss takes an output that is one number, and says what to do with others. Scores that are probabilities already
    are warned about."""

    def build(nodes, outputs, *flags):
        inputs = [value("x", "f4", [2, 3])]
        file = folder / "loss.onnx"
        file.write_bytes(
            model(nodes, inputs, [value(o, "f4", s) for o, s in outputs], {"w": np.ones((3, 4), np.float32)})
        )
        return ["scrimp-compile", file, "--emit", "import", "-o", folder / "out.mlir", "--trainable", "w", *flags]

    product = node("MatMul", ["x", "w"], ["y"], "product")
    means = [
        product,
        node("ReduceMean", ["y"], ["mean"]),
        node("Mul", ["y", "y"], ["squares"]),
        total("squares", "sum"),
    ]
    outputs = [("y", [2, 4]), ("mean", [1, 1]), ("sum", [])]
    for name in ("mean", "sum"):
        run(build(means, outputs, "--loss", name))
    expect(
        folder,
        build(means, outputs),
        "scrimp-compile: error: 'FOLDER/loss.onnx' has several scalar outputs to take as the loss (its outputs are y "
        "float[2,4], mean float[1,1], sum float[]); name one with --loss, for example --loss mean",
    )
    expect(
        folder,
        build(means, outputs, "--loss", "y"),
        "scrimp-compile: error: 'FOLDER/loss.onnx' has a loss 'y' that is not one number but 'tensor<2x4xf32>'; reduce it "
        "in the model, or give --loss a function of it: 'cross_entropy(y,labels)', 'mse(y,target)' or "
        "'bce_with_logits(y,target)'",
    )
    expect(
        folder,
        build(means, outputs, "--loss", "z"),
        "scrimp-compile: error: 'FOLDER/loss.onnx' has no value 'z', which --loss names; its outputs are y float[2,4], "
        "mean float[1,1], sum float[]",
    )
    for loss, op, function in (("cross_entropy", "Softmax", "softmax"), ("bce_with_logits", "Sigmoid", "sigmoid")):
        scores = [product, node(op, ["y"], ["p"], "scores"), node("Reshape", ["p", "s"], ["q"])]
        scores += [node("Constant", [], ["s"], value=np.array([2, 4]))]
        told = run(build(scores, [("q", [2, 4])], "--loss", f"{loss}(q,labels)")).stderr
        warning = f"warning: {loss} applies a {function}, but its scores are the result of one, 'scores'; give it what goes into that"
        check(warning in told, f"{loss}: {told}")
        told = run(build(scores, [("q", [2, 4])], "--loss", f"{loss}(y,labels)")).stderr
        check("applies" not in told, f"{loss} of scores: {told}")


if __name__ == "__main__":
    harness.main([padding, carried, signed, prefixes, pickles, links, patterns, unused, losses])
