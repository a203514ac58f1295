"""Models that no exporter writes, by hand in the dialect, against what NumPy computes in a few lines.

python odd_models.py FOLDER [NAME ...]
"""

import numpy as np

import harness
from bad_input import expect
from harness import check, compile_model, train, train_steps
from onnx_writer import model, node, value

QUADRATIC = """
func.func @main(%w: tensor<3xf64> {scrimp.name = "w", scrimp.param = "trainable", scrimp.init = {kind = "ones"}},
                %x: tensor<3xf64> {scrimp.name = "x", scrimp.input = -1 : i64})
    -> (tensor<f64> {scrimp.output = "loss"}) {
  %d = scrimp.sub %w, %x : tensor<3xf64>
  %s = scrimp.mul %d, %d : tensor<3xf64>
  %l = scrimp.reduce sum, %s [0] : tensor<3xf64> -> tensor<f64>
  return %l : tensor<f64>
}
"""
X = np.array([0.5, -2.0, 3.0])

NO_DATA = """
func.func @main(%w: tensor<3xf64> {scrimp.name = "w", scrimp.param = "trainable", scrimp.init = {kind = "ones"}})
    -> (tensor<f64> {scrimp.output = "loss"}) {
  %s = scrimp.mul %w, %w : tensor<3xf64>
  %l = scrimp.reduce sum, %s [0] : tensor<3xf64> -> tensor<f64>
  return %l : tensor<f64>
}
"""


def build(folder, name, text, *flags):
    (folder / f"{name}.mlir").write_text(text)
    compile_model(folder / f"{name}.mlir", folder / name, *flags)
    return folder / name


def close(found, expected, what, tolerance=1e-14):
    found, expected = np.asarray(found), np.asarray(expected)
    check(
        found.shape == expected.shape and np.allclose(found, expected, rtol=tolerance, atol=tolerance),
        f"{what}: {found.tolist()}\nexpected {expected.tolist()}",
    )


def sgd(steps, lr=1e-3, momentum=None, dampening=0.0, nesterov=False, weight_decay=0.0):
    """torch.optim.SGD as its documentation writes it, on the quadratic: losses and final weights."""
    w, buffer, losses = np.ones(3), None, []
    for _ in range(steps):
        losses.append(((w - X) ** 2).sum())
        g = 2 * (w - X) + weight_decay * w
        if momentum is not None:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        w = w - lr * g
    return losses, w


def optimizers(folder):
    """Momentum, dampening, Nesterov and weight decay follow PyTorch's SGD step by step, also over a resume."""
    np.save(folder / "x.npy", X)
    data = ["--data", f"x={folder}/x.npy", "--steps", "6"]
    variants = {
        "plain": ((), dict(lr=0.1)),
        "decay": ((), dict(lr=0.1, weight_decay=0.3)),
        "momentum": (("--momentum",), dict(lr=0.1, momentum=0.8)),
        "dampening": (("--momentum",), dict(lr=0.1, momentum=0.8, dampening=0.4, weight_decay=0.05)),
        "nesterov": (("--momentum", "--nesterov"), dict(lr=0.1, momentum=0.8, weight_decay=0.05)),
        "heavy": (("--momentum",), dict(lr=0.02, momentum=1.0)),
    }
    for name, (compile_flags, values) in variants.items():
        program = build(folder, name, QUADRATIC, "--optimizer", "sgd", *compile_flags)
        flags = [f for key, value in values.items() for f in ("--" + key.replace("_", "-"), value)]
        save = folder / f"{name}-save"
        steps = train_steps(program, folder / f"{name}.jsonl", *data, *flags, "--save", save, "--save-every", "2")
        losses, w = sgd(6, nesterov="--nesterov" in compile_flags, **values)
        close([s["loss"] for s in steps], losses, f"losses of {name}")
        close(harness.weights(save)["w"], w, f"weights of {name}")
        again = train_steps(
            program, folder / f"{name}-again.jsonl", *data, "--resume", save / "step-000002", "--save", folder / "again"
        )
        check([s["loss"] for s in again] == [s["loss"] for s in steps[2:]], f"{name}, resumed without its flags")


def clipping(folder):
    """The gradients' norm is bounded, by the flag's default also where the resumed run knew no bound."""
    np.save(folder / "x.npy", X)
    data = ["--data", f"x={folder}/x.npy", "--lr", "0.1"]
    plain = build(folder, "plain", QUADRATIC, "--optimizer", "sgd")
    clipped = build(folder, "clipped", QUADRATIC, "--optimizer", "sgd", "--clip-grad-norm")
    train(plain, *data, "--steps", "1", "--save", folder / "save")
    w, gradient = sgd(1, lr=0.1)[1], lambda w: 2 * (w - X)
    for flags, bound in (([], 1.0), (["--clip-norm", "0.5"], 0.5), (["--clip-norm", "inf"], np.inf)):
        save = folder / f"save-{bound}"
        steps = train_steps(
            clipped, folder / "m.jsonl", *data, *flags, "--steps", "2", "--resume", folder / "save", "--save", save
        )
        norm = np.sqrt((gradient(w) ** 2).sum())
        close(steps[0]["grad_norm"], norm, "norm")
        scale = min(bound / (norm + 1e-6), 1)
        close(harness.weights(save)["w"], w - 0.1 * scale * gradient(w), f"weights with the bound {bound}")


def adam(folder):
    """Adam's weight decay goes through the moments, AdamW's does not."""
    np.save(folder / "x.npy", X)
    for name, flags in (("adam", ["--weight-decay", "0.1"]), ("adamw", [])):
        program = build(folder, name, QUADRATIC, "--optimizer", name)
        values = ["--lr", "0.05", "--beta1", "0.8", "--beta2", "0.95", "--eps", "1e-3", *flags]
        steps = train_steps(program, folder / f"{name}.jsonl", "--data", f"x={folder}/x.npy", "--steps", "5", *values)
        w, m, v, losses = np.ones(3), np.zeros(3), np.zeros(3), []
        for t in range(1, 6):
            losses.append(((w - X) ** 2).sum())
            g = 2 * (w - X)
            if name == "adam":
                g = g + 0.1 * w
            else:
                w = w * (1 - 0.05 * 0.01)  # the default decay
            m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
            w = w - 0.05 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-3)
        close([s["loss"] for s in steps], losses, f"losses of {name}", 1e-12)


def without_data(folder):
    """A loss of the parameters alone trains; there is no epoch, so the number of steps must be said."""
    program = build(folder, "train", NO_DATA, "--optimizer", "sgd")
    expect(
        folder,
        [program],
        "train: error: the model has no input with a batch dimension, so an epoch has no length; give --steps N",
    )
    steps = train_steps(program, folder / "m.jsonl", "--steps", "3", "--lr", "0.1")
    close([s["loss"] for s in steps], [3 * 0.8 ** (2 * i) for i in range(3)], "losses")
    check([s["samples"] for s in steps] == [1, 2, 3], f"samples {[s['samples'] for s in steps]}")
    expect(
        folder,
        [program, "--steps", "1", "--data", f"x={folder}/x.npy"],
        "train: error: --data x: the model has no such input, its inputs are none",
    )
    # The same for data that all samples share: there is an evaluation too.
    shared = build(folder, "shared", QUADRATIC, "--optimizer", "sgd")
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", X + 1)
    data = ["--data", f"x={folder}/x.npy", "--eval-data", f"x={folder}/y.npy", "--steps", "1", "--lr", "0"]
    train(shared, "--metrics", folder / "s.jsonl", *data)
    found = harness.read_metrics(folder / "s.jsonl")
    close(found[0]["loss"], ((1 - X) ** 2).sum(), "loss")
    close(found[1]["eval_loss"], (X**2).sum(), "evaluation's loss")


DROPOUT = """
func.func @main(%w: tensor<32x1000xf64> {scrimp.name = "w", scrimp.param = "trainable", scrimp.init = {kind = "ones"}},
                %x: tensor<32x1000xf64> {scrimp.name = "x", scrimp.input = 0 : i64},
                %seed: tensor<i64> {scrimp.name = "seed", scrimp.scalar = "seed"},
                %step: tensor<i64> {scrimp.name = "step", scrimp.scalar = "step"},
                %base: tensor<i64> {scrimp.name = "sample_base", scrimp.scalar = "sample_base"})
    -> (tensor<f64> {scrimp.output = "loss"}) {
  %p = scrimp.mul %w, %x : tensor<32x1000xf64>
  %d = scrimp.dropout %p, %seed, %step, %base {key = 0 : i64, batch_dim = 0 : i64, samples = 32 : i64, p = 0.25 : f64}
      : tensor<32x1000xf64>
  %l = scrimp.reduce sum, %d [0, 1] : tensor<32x1000xf64> -> tensor<f64>
  return %l : tensor<f64>
}
"""


def dropout(folder):
    """The backward pass has the forward's mask; the share kept is 1 - p; masks change with the step; evaluation has
    none."""
    x = np.arange(1.0, 32001.0).reshape(32, 1000)
    np.save(folder / "x.npy", x)
    program = build(folder, "train", DROPOUT, "--optimizer", "sgd")
    files = ["--data", f"x={folder}/x.npy", "--eval-data", f"x={folder}/x.npy", "--no-shuffle"]
    flags = ["--steps", "4", "--lr", "1", "--save", folder / "save", "--save-every", "1", "--eval-every", "1"]
    train(program, "--metrics", folder / "m.jsonl", *files, *flags)
    metrics = harness.read_metrics(folder / "m.jsonl")
    losses = [m["loss"] for m in metrics if "loss" in m]
    evaluations = [m["eval_loss"] for m in metrics if "eval_loss" in m]
    before, masks = np.ones((32, 1000)), []
    for step in range(4):
        after = harness.read_safetensors(folder / "save" / f"step-{step + 1:06d}" / "model.safetensors")["w"]
        mask = (before - after) / x * 0.75  # the gradient of w is mask / (1 - p) x
        close(mask, np.round(mask), f"step {step + 1}: the mask is 0 or 1", 1e-9)
        mask = np.round(mask)
        close(losses[step], (mask * before * x).sum() / 0.75, f"step {step + 1}: loss by the backward's mask", 1e-12)
        close(evaluations[step], (after * x).sum(), f"step {step + 1}: evaluation", 1e-12)
        masks.append(mask)
        before = after
    # 32000 draws of 0.75: mean 24000, standard deviation 77; each row 750, 14; two masks agree in 10/16 of places, 87.
    for mask in masks:
        check(abs(mask.sum() - 24000) < 5 * 77, f"kept {mask.sum()} of 32000")
        check((abs(mask.sum(axis=1) - 750) < 5 * 14).all(), f"kept by sample: {mask.sum(axis=1)}")
    for i in range(3):
        agree = (masks[i] == masks[i + 1]).sum()
        check(abs(agree - 20000) < 5 * 87, f"masks {i + 1} and {i + 2} agree in {agree} of 32000 places")


CLASSIFIER = """
func.func @main(%x: tensor<4x3xTYPE> {scrimp.name = "x", scrimp.input = 0 : i64},
                %y: tensor<4xi32> {scrimp.name = "y", scrimp.input = 0 : i64, scrimp.ignore = -1 : i64,
                                   scrimp.valid = array<i64: 0, 5>},
                %w: tensor<3x5xTYPE> {scrimp.name = "w", scrimp.param = "trainable", scrimp.init = {kind = "zeros"}},
                %b: tensor<5xTYPE> {scrimp.name = "b", scrimp.param = "trainable", scrimp.init = {kind = "zeros"}})
    -> (tensor<f32> {scrimp.output = "loss"}) {
  %h = scrimp.matmul %x, %w : tensor<4x3xTYPE>, tensor<3x5xTYPE> -> tensor<4x5xTYPE>
  %bias = scrimp.broadcast %b : tensor<5xTYPE> -> tensor<4x5xTYPE>
  %z = scrimp.add %h, %bias : tensor<4x5xTYPE>
  %l, %lse = scrimp.cross_entropy %z, %y {ignore_index = -1 : i64} : tensor<4x5xTYPE>, tensor<4xi32> -> tensor<4xf32>
  %s = scrimp.reduce sum, %l [0] : tensor<4xf32> -> tensor<f32>
  return %s : tensor<f32>
}
"""


def half_precision(folder):
    """Models of f16 and bf16 train in their type, save and resume their masters in f32, those without masters in bf16;
    labels may be i32; --precision fp64 widens them."""
    random = np.random.RandomState(1)
    np.save(folder / "x.npy", random.randn(8, 3).astype("f2"))
    labels = np.array([0, 1, -1, 3, 4, 2, -1, 1], "i4")
    np.save(folder / "y.npy", labels)
    data = ["--data", f"x={folder}/x.npy", "--data", f"y={folder}/y.npy", "--no-shuffle", "--lr", "0.05"]
    exact = build(folder, "f64", CLASSIFIER.replace("TYPE", "bf16"), "--precision", "fp64")
    reference = [s["loss"] for s in train_steps(exact, folder / "f64.jsonl", "--steps", "20", *data)]
    close(reference[0], 3 * np.log(5), "three labels at equal odds", 1e-12)
    check(reference[-1] < 0.6 * reference[0], f"the loss does not fall: {reference}")
    for name, kind, epsilon, *flags in (
        ("f16", "f16", 2**-11, "--verify"),
        ("bf16", "bf16", 2**-8, "--verify"),
        ("none", "bf16", 2**-8, "--verify", "--master", "none", "--moments", "bf16"),
        ("f32", "f32", 2**-24),
    ):
        program = build(folder, name, CLASSIFIER.replace("TYPE", kind), *flags)
        save = folder / f"{name}-save"
        saved = "BF16" if name == "none" else "F32"
        steps = train_steps(
            program, folder / f"{name}.jsonl", "--steps", "20", "--save", save, "--save-every", "10", *data
        )
        close([s["loss"] for s in steps], reference, f"losses in {name}", 32 * epsilon)
        header = (harness.newest(save) / "model.safetensors").read_bytes()
        check(f'"{saved}"'.encode() in header, f"parameters of {name} are not saved in {saved}")
        again = train_steps(
            program, folder / f"{name}-again.jsonl", "--steps", "20", "--resume", save / "step-000010", *data
        )
        check([s["loss"] for s in again] == [s["loss"] for s in steps[10:]], f"{name} resumed is another run")


def exported(folder):
    """An f16 export trains; a constant that becomes infinite is told; labels that a loss ignores are data."""
    scores = value("x", "f2", ["batch", 4])
    nodes = [
        node("MatMul", ["x", "w"], ["y"], name="product"),
        node("Constant", [], ["huge"], value=np.array([-1e300])),
        node("Cast", ["huge"], ["floor"], name="narrow", to=10),
        node("Max", ["y", "floor"], ["z"]),
        node("Gelu", ["z"], ["g"]),
        node("LogSoftmax", ["g"], ["p"], axis=1),
        node("NegativeLogLikelihoodLoss", ["p", "labels"], ["loss"], ignore_index=-100),
    ]
    (folder / "half.onnx").write_bytes(
        model(
            nodes,
            [scores, value("labels", "i8", ["batch"])],
            [value("loss", "f2", [])],
            {"w": np.full((4, 3), 0.1, "f2")},
            opset=20,
        )
    )
    compiled = harness.run(["scrimp-compile", folder / "half.onnx", "-o", folder / "half", "--dim", "batch=4"])
    check(
        compiled.stderr == "scrimp-compile: note: 1 of the 1 values of 'huge' are too large for the type that node "
        "'narrow' casts them to, and become infinite\n",
        compiled.stderr,
    )
    np.save(folder / "x.npy", np.arange(16.0).reshape(4, 4).astype("f2") / 16)
    np.save(folder / "labels.npy", np.array([0, -100, 2, 1]))
    data = ["--data", f"x={folder}/x.npy", "--data", f"labels={folder}/labels.npy"]
    steps = train_steps(folder / "half", folder / "m.jsonl", "--steps", "10", "--lr", "0.05", *data)
    # All weights are equal, so are all scores.
    close(steps[0]["loss"], np.log(3), "the first loss", 2**-10)
    check(steps[-1]["loss"] < steps[0]["loss"] - 0.05, f"the loss does not fall: {steps}")


def indices(folder):
    """Indices that data give are checked before they are used, whatever op uses them."""
    data = value("i", "i8", ["batch", 1])
    for op in ("GatherND", "Gather", "GatherElements"):
        table = np.arange(5.0).astype("f4")
        pick = node(op, ["t", "i"], ["p"]) if op != "GatherElements" else node(op, ["t2", "i"], ["p"], axis=1)
        nodes = [pick, node("Mul", ["p", "w"], ["q"]), node("ReduceSum", ["q"], ["loss"], keepdims=0)]
        nodes.insert(0, node("Constant", [], ["t"], value=table))
        nodes.insert(0, node("Constant", [], ["t2"], value=np.stack([table, table])))
        program = folder / op
        path = folder / f"{op}.onnx"
        path.write_bytes(model(nodes, [data], [value("loss", "f4", [])], {"w": np.ones(1, "f4")}))
        compile_model(path, program, "--dim", "batch=2")
        np.save(folder / "i.npy", np.array([[4], [3]]))
        steps = train_steps(program, folder / "m.jsonl", "--data", f"i={folder}/i.npy")
        check(steps[0]["loss"] == 7, f"{op}: the loss is {steps[0]['loss']}")
        np.save(folder / "i.npy", np.array([[4], [5]]))
        expect(
            folder,
            [program, "--no-shuffle", "--data", f"i={folder}/i.npy"],
            f"{op}: error: --data: input 'i', sample 1: value 5 in 'FOLDER/i.npy' is outside 0 to 4",
        )


def ignored(folder):
    """A value that a loss leaves out, as exporters write that, is valid data: replaced before the lookup and masked after."""
    forms = {
        "negated": [node("Equal", ["i", "c"], ["e"]), node("Not", ["e"], ["n"]), node("Where", ["n", "i", "zero"], ["j"])],
        "other": [node("Equal", ["i", "c"], ["e"]), node("Not", ["e"], ["n"]), node("Where", ["e", "zero", "i"], ["j"])],
    }
    for name, nodes in forms.items():
        nodes += [
            node("Gather", ["t", "j"], ["p"]),
            node("Where", ["n", "p", "none"], ["q"]),
            node("Mul", ["q", "w"], ["r"]),
            node("ReduceSum", ["r"], ["loss"], keepdims=0),
        ]
        # The table is frozen: nothing but w learns.
        tensors = {"t": np.arange(1, 6).astype("f4"), "w": np.ones(1, "f4"), "none": np.zeros(1, "f4")}
        tensors |= {"c": np.array(-100), "zero": np.array(0)}
        path = folder / f"{name}.onnx"
        path.write_bytes(model(nodes, [value("i", "i8", ["batch", 1])], [value("loss", "f4", [])], tensors))
        compile_model(path, folder / name, "--dim", "batch=3", "--frozen", "t", "--frozen", "none")
        np.save(folder / "i.npy", np.array([[4], [-100], [1]]))
        steps = train_steps(folder / name, folder / "m.jsonl", "--data", f"i={folder}/i.npy")
        check(steps[0]["loss"] == 7, f"{name}: the loss is {steps[0]['loss']}, expected 5 + 2")
        np.save(folder / "i.npy", np.array([[4], [-100], [-1]]))
        expect(
            folder,
            [folder / name, "--no-shuffle", "--data", f"i={folder}/i.npy"],
            f"{name}: error: --data: input 'i', sample 2: value -1 in 'FOLDER/i.npy' is outside 0 to 4 (or -100, ignored)",
        )


if __name__ == "__main__":
    harness.main([optimizers, clipping, adam, without_data, dropout, half_precision, exported, indices, ignored])
