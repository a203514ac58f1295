"""Mixed precision: 16-bit activations, fp32 masters, loss scaling, and parameters and states in bf16.

    python precision.py FOLDER [NAME ...]
"""

import json

import numpy as np

import harness
from harness import MODELS, check, compile_model, read_metrics, same_checkpoints, train, train_steps, weights
from onnx_writer import BFloat16, model, node, value

GPT = {"input_ids": "input_ids.npy", "labels": "labels.npy"}


def f4(x):
    return np.asarray(x, "f4")


def bf16(bits):
    """What bfloat16 bits stand for."""
    return (bits.astype("u4") << 16).view("f4")


def product(weight, rows="batch"):
    """loss = sum of t relu(x w): with x w above 0 the gradient of w is the sum of t x."""
    return model(
        [
            node("MatMul", ["x", "w"], ["product"]),
            node("Relu", ["product"], ["y"]),
            node("Mul", ["y", "t"], ["z"]),
            node("ReduceSum", ["z"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", [rows, weight.shape[0]]), value("t", "f4", [rows, weight.shape[1]])],
        [value("loss", "f4", [])],
        {"w": weight},
    )


def names_of(data):
    return [f for n in data for f in ("--data", n)]


def build(folder, name, graph, data, *flags, batch=1):
    """Compiles `graph` (bytes) as folder/name; the flags of its data."""
    (folder / f"{name}.onnx").write_bytes(graph)
    compile_model(folder / f"{name}.onnx", folder / name, *names_of(data), "--dim", f"batch={batch}", *flags)
    files = []
    for n, array in data.items():
        np.save(folder / f"{name}.{n}.npy", array)
        files += ["--data", f"{n}={folder}/{name}.{n}.npy"]
    return [*files, "--no-shuffle"]


def learn(folder, name, files, *flags):
    steps = train_steps(folder / name, folder / f"{name}.jsonl", "--save", folder / f"{name}.save", *files, *flags)
    return steps, weights(folder / f"{name}.save")


def gpt(folder, name, *flags):
    compile_model(MODELS / "gpt2" / "export.onnx", folder / name, "--dim", "batch=4", *flags)
    return harness.data_flags(MODELS / "gpt2", GPT)


def masters(folder):
    """19: 100 updates of 6e-4 in bf16 move 1 to .94, and checkpoints hold fp32; without masters their mean does so."""
    wide = f4(np.ones((64, 1)))
    data = {"x": f4(np.ones((1, 64))), "t": f4([[1]])}
    sgd = ("--optimizer", "sgd", "--precision", "bf16")
    run = ("--lr", "6e-4", "--steps", "100")
    _, final = learn(folder, "masters", build(folder, "masters", product(wide), data, *sgd), *run)
    check(final["w"].dtype == "f4" and np.abs(final["w"] - 0.94).max() < 1e-5, f"masters: {final['w'].ravel()[:4]}")
    files = build(folder, "none", product(wide), data, *sgd, "--master", "none")
    _, final = learn(folder, "none", files, *run)
    check(final["w"].dtype == "u2", f"without masters weights are {final['w'].dtype}")
    found = bf16(final["w"]).mean()
    check(abs(found - 0.94) < 0.01, f"without masters: the mean weight is {found}, expected .94; nearest would stay at 1")


def sixteen_bit_file(folder):
    """A file of bf16 weights has masters too; AdamW counts 600 steps (64: a counter in 16 bits would stop at 256)."""
    count = 256
    graph = model(
        [
            node("Cast", ["bits"], ["x"], to=16),
            node("MatMul", ["x", "w"], ["y"]),
            node("Cast", ["y"], ["high"], to=1),
            node("ReduceSum", ["high"], ["loss"], keepdims=0),
        ],
        [value("bits", "f4", ["batch", count])],
        [value("loss", "f4", [])],
        {"w": BFloat16(np.full((count, 1), 0x3F80, "u2"))},
    )
    data = {"bits": f4(np.full((1, count), 0.1))}
    run = ("--lr", "1e-3", "--weight-decay", "0", "--steps", "600")
    for name, flags, bound in (("masters", (), 1e-4), ("none", ("--master", "none", "--moments", "bf16"), 0.02)):
        _, final = learn(folder, name, build(folder, name, graph, data, *flags), *run)
        found = final["w"] if name == "masters" else bf16(final["w"])
        check(found.dtype == "f4", f"{name}: weights are {found.dtype}")
        check(abs(found.mean() - 0.4) < bound, f"{name}: the mean weight is {found.mean()}, expected .4")


def double_file(folder):
    """A model that was exported in double, in fp32 and in bf16: bit for bit what the same model exported in fp32 gives."""
    data = harness.data_flags(MODELS / "gpt2", harness.INPUTS["gpt2"])
    for precision in ("fp32", "bf16"):
        losses = []
        for name in ("export", "export.f64"):
            program = folder / f"{name}-{precision}"
            compile_model(MODELS / "gpt2" / f"{name}.onnx", program, "--dim", "batch=4", "--precision", precision)
            steps = train_steps(program, folder / "metrics.jsonl", "--steps", 3, *data)
            losses.append([step["loss"] for step in steps])
        check(losses[0] == losses[1], f"{precision}: losses of the file in fp32, and of that in double: {losses}")


def accumulators(folder):
    """18 and 7: gradients 256 and 1 of two micro-batches add up to 257, and a row that only the last one reads gets its
    gradient in full."""
    data = {"x": f4([[256], [1]]), "t": f4([[1], [1]])}
    sgd = ("--optimizer", "sgd", "--precision", "bf16")
    files = build(folder, "sum", product(f4([[1]])), data, *sgd, "--micro-batches", "2", batch=2)
    _, final = learn(folder, "sum", files, "--lr", "1", "--steps", "1")
    check(final["w"].tolist() == [[-256]], f"the weight is {final['w']}, expected 1 - 257")
    rng = np.random.default_rng(7)
    table, head = f4(rng.normal(size=(6, 4))), f4(rng.normal(size=(4, 3)))
    graph = model(
        [
            node("Gather", ["table", "ids"], ["rows"]),
            node("MatMul", ["rows", "head"], ["scores"]),
            node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"]),
        ],
        [value("ids", "i8", ["batch"]), value("labels", "i8", ["batch"])],
        [value("loss", "f4", [])],
        {"table": table, "head": head},
    )
    data = {"ids": np.array([0, 1, 2, 3, 1, 5], "i8"), "labels": np.array([0, 1, 2, 0, 1, 2], "i8")}
    tables = []
    for name, flags in (("whole", ()), ("low", ("--precision", "bf16", "--micro-batches", "3"))):
        files = build(folder, name, graph, data, "--optimizer", "sgd", *flags, batch=6)
        tables.append(learn(folder, name, files, "--lr", "1", "--steps", "1")[1]["table"] - table)
    check(np.abs(tables[0][5]).max() > 0.01, f"row 5 is not trained: {tables[0]}")
    distance = np.abs(tables[1] - tables[0]).max()
    check(distance < 0.01 * np.abs(tables[0]).max(), f"micro-batches in bf16 are off by {distance}: {tables}")
    check((tables[1][4] == 0).all(), "row 4, which nobody reads, was changed")


def norm(folder):
    """13: gradients of 5000 in fp16 have the norm 5000 sqrt(n), and no step is skipped."""
    data = {"x": f4(np.full((1, 400), 5000)), "t": f4([[1]])}
    files = build(folder, "norm", product(f4(np.full((400, 1), 1e-3))), data, "--precision", "fp16", "--clip-grad-norm")
    steps, _ = learn(folder, "norm", files, "--steps", "3", "--loss-scale", "1")
    check(not any(s.get("skipped") for s in steps), f"a step was skipped: {steps}")
    check(abs(steps[0]["grad_norm"] - 1e5) < 1, f"the norm is {steps[0]['grad_norm']}, expected 100000")


def large_activations(folder):
    """15: ten linear layers with activations near 1e5 stay finite in bf16; computed again they are the same to the bit."""
    rng = np.random.default_rng(15)
    layers = {f"w{i}": f4(np.linalg.qr(rng.normal(size=(8, 8)))[0]) for i in range(10)}
    nodes = [node("MatMul", ["x" if i == 0 else f"h{i - 1}", f"w{i}"], [f"h{i}"]) for i in range(10)]
    nodes += [node("ReduceMean", ["h9"], ["loss"], keepdims=0)]
    graph = model(nodes, [value("x", "f4", ["batch", 8])], [value("loss", "f4", [])], layers)
    data = {"x": f4(rng.normal(size=(4, 8)) * 1e5)}
    runs = []
    for name, remat in (("kept", ()), ("again", ("--remat", "tradeoff=inf"))):
        files = build(folder, name, graph, data, "--precision", "bf16", "--optimizer", "sgd", *remat, "--report", folder / f"{name}.json", batch=4)
        repeated = json.loads((folder / f"{name}.json").read_text())["recomputed"]
        check(bool(repeated) == bool(remat), f"{name}: {repeated} are computed again")
        steps, final = learn(folder, name, files, "--lr", "1e-12", "--steps", "3")
        check(all(np.isfinite(s["loss"]) and np.isfinite(s["grad_norm"]) for s in steps), f"{steps}")
        runs.append((steps, final))
    harness.same_losses(runs[1][0], runs[0][0], "computed again")
    check(all(runs[1][1][n].tobytes() == w.tobytes() for n, w in runs[0][1].items()), "weights differ, computed again")


def loss_scaling(folder):
    """20: fp16, two micro-batches, clipping; the third step overflows and changes nothing but the scale. Resumed after
    the fourth, the run is the uninterrupted one."""
    t = np.full((12, 2), 1e-2)
    t[4:6] = 10  # times 65536 is no number of fp16
    data = {"x": f4(np.random.default_rng(20).uniform(1, 2, (12, 3))), "t": f4(t)}
    graph = product(f4(np.arange(1, 7).reshape(3, 2) / 10))
    files = build(
        folder, "train", graph, data, "--precision", "fp16", "--micro-batches", "2", "--clip-grad-norm", batch=2
    )
    files += ["--lr", "1e-2", "--lr-schedule", "linear", "--warmup", "2", "--clip-norm", "0.01", "--save-every", "1"]
    files += ["--scale-interval", "2"]

    def go(name, *flags):
        return train_steps(folder / "train", folder / f"{name}.jsonl", *files, *flags)

    whole = go("whole", "--steps", "6", "--save", folder / "whole")
    check([bool(s.get("skipped")) for s in whole] == [False, False, True, False, False, False], f"{whole}")
    scales = [s["loss_scale"] for s in whole]
    check(scales == [65536, 65536, 131072, 65536, 65536, 131072], f"scales are {scales}")
    check([s["scale_skips"] for s in whole] == [0, 0, 1, 1, 1, 1], f"{whole}")
    check(whole[2]["lr"] == whole[3]["lr"], "the schedule went on at the skipped step")
    before, after = (
        [
            harness.read_safetensors(folder / "whole" / f"step-{step:06}" / f"{kind}.safetensors")
            for kind in ("model", "optimizer")
        ]
        for step in (2, 3)
    )
    for old, new in zip(before, after):
        check(all((old[n] == new[n]).all() for n in old), "the skipped step changed weights or moments")
    rest = go("rest", "--steps", "6", "--resume", folder / "whole" / "step-000004", "--save", folder / "rest")
    same_checkpoints(folder / "rest", folder / "whole", "resumed")
    harness.same_losses(rest, whole[4:], "resumed")
    check([s["loss_scale"] for s in rest] == scales[4:], f"resumed scales are {[s['loss_scale'] for s in rest]}")


def scale_is_bounded(folder):
    """65: a scale that grows every step stays finite, so that zero gradients stay zero; resumed too."""
    data = {"x": f4([[0]]), "t": f4([[1]])}
    files = build(folder, "train", product(f4([[0.7]])), data, "--precision", "fp16", "--optimizer", "sgd")
    files += ["--scale-interval", "1"]
    whole, final = learn(folder, "train", files, "--steps", "150", "--save-every", "120")
    check(final["w"].tolist() == f4([[0.7]]).tolist(), f"the weight is {final['w']}")
    scales = [s["loss_scale"] for s in whole]
    check(scales[1] == 131072 and scales[-1] == 2.0**126, f"scales are {scales[:3]} to {scales[-1]}")
    check(not any(s.get("skipped") for s in whole), "a step was skipped")
    rest = train_steps(
        folder / "train", folder / "rest.jsonl", *files, "--steps", "150", "--resume",
        folder / "train.save" / "step-000120", "--save", folder / "rest"
    )  # fmt: skip
    check([s["loss_scale"] for s in rest] == scales[120:], "the resumed run has other scales")
    same_checkpoints(folder / "rest", folder / "train.save", "resumed")


def hidden_rows(folder):
    """22: in fp16 a sample whose tokens are all hidden is finite and adds no gradient, whatever its tokens are."""
    inputs = {"input_ids": "input_ids.npy", "attention_mask": "attention_mask.npy", "labels": "labels.npy"}
    arrays = {n: np.load(MODELS / "bert" / f)[:4].copy() for n, f in inputs.items()}
    arrays["attention_mask"][1] = 0
    arrays["attention_mask"][2, 3:] = 0
    arrays["labels"][arrays["attention_mask"] == 0] = -100
    compile_model(MODELS / "bert" / "export.onnx", folder / "train", "--dim", "batch=4", "--precision", "fp16")
    steps = []
    for name in ("a", "b"):
        (folder / name).mkdir()
        for n, array in arrays.items():
            np.save(folder / name / inputs[n], array)
        data = harness.data_flags(folder / name, inputs)
        steps.append(train_steps(folder / "train", folder / f"{name}.jsonl", "--steps", "2", "--no-shuffle", *data))
        arrays["input_ids"][1] = arrays["input_ids"][1][::-1]
    check(all(np.isfinite(s["loss"]) and not s.get("skipped") for s in steps[0]), f"{steps[0]}")
    harness.same_losses(steps[0], steps[1], "other tokens in the hidden sample")


def hidden_scores(folder):
    """22, of attention that the compiler does not know as such, since its probabilities are read twice: a row that sees nothing,
    by the least fp32, has equal probabilities in 16 bits too; torch adds the mask, and takes the softmax, in fp32."""
    random = np.random.default_rng(22)
    names = ("wq", "wk", "wv")
    nodes = [node("MatMul", ["x", w], [w[1]]) for w in names]
    nodes += [
        node("Constant", [], ["one"], value=f4(1)),
        node("Constant", [], ["least"], value=f4(np.finfo("f4").min)),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["products"]),
        node("Sub", ["one", "seen"], ["hidden"]),
        node("Mul", ["hidden", "least"], ["mask"]),
        node("Add", ["products", "mask"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
        node("MatMul", ["y", "wo"], ["z"]),
        node("Mul", ["z", "z"], ["z2"]),
        node("ReduceMean", ["z2"], ["first"], keepdims=0),
        node("Mul", ["p", "p"], ["p2"]),
        node("ReduceMean", ["p2"], ["second"], keepdims=0),
        node("Add", ["first", "second"], ["loss"]),
    ]
    weights_ = {w: f4(random.normal(size=(8, 8)) / 2) for w in (*names, "wo")}
    inputs = [value("x", "f4", ["batch", 4, 8]), value("seen", "f4", ["batch", 1, 4])]
    graph = model(nodes, inputs, [value("loss", "f4", [])], weights_)
    data = {"x": f4(random.normal(size=(2, 4, 8))), "seen": f4([[[1, 1, 0, 1]], [[0, 0, 0, 0]]])}
    found = {}
    for name in ("fp32", "bf16", "fp16"):
        flags = ("--precision", name, "--optimizer", "sgd", "--clip-grad-norm")
        files = build(folder, name, graph, data, *flags, batch=2)
        listing = harness.run(["scrimp-plan", folder / f"{name}.onnx", *names_of(data), "--dim", "batch=2", *flags, "--dump"])
        check("attention" not in listing.stdout, "the compiler knows this attention: nothing is tested")
        steps, _ = learn(folder, name, files, "--lr", "0.1", "--steps", "3")
        found[name] = [(s["loss"], s["grad_norm"]) for s in steps]
        check(not any(s.get("skipped") for s in steps), f"{name}: {steps}")
    for name, digits in (("bf16", 7), ("fp16", 10)):
        near = np.allclose(found[name], found["fp32"], rtol=2.0**-digits * 4)
        check(near and np.isfinite(found[name]).all(), f"{name}: {found[name]}, in fp32 {found['fp32']}")


def resumed(folder):
    """41: in bf16 2 + 3 steps are 5, and so are those of one thread, to the bit; another precision takes the checkpoint."""
    for name, flags in (("masters", ()), ("none", ("--master", "none", "--moments", "bf16"))):
        data = gpt(folder, name, "--precision", "bf16", *flags)
        paths = [folder / f"{name}.{kind}" for kind in ("whole", "first", "rest", "one")]
        train(folder / name, "--steps", "5", "--save", paths[0], *data)
        train(folder / name, "--steps", "2", "--save", paths[1], *data)
        train(folder / name, "--steps", "5", "--resume", paths[1], "--save", paths[2], *data)
        train(folder / name, "--steps", "5", "--threads", "1", "--save", paths[3], *data)
        same_checkpoints(paths[2], paths[0], f"{name}, resumed")
        same_checkpoints(paths[3], paths[0], f"{name}, one thread")
    for precision in ("fp32", "fp16"):
        data = gpt(folder, precision, "--precision", precision)
        steps = train_steps(
            folder / precision, folder / f"{precision}.jsonl", "--steps", "4", "--resume", folder / "masters.first", *data
        )
        check([s["step"] for s in steps] == [3, 4] and np.isfinite(steps[1]["loss"]), f"{precision}: {steps}")


def close_to_fp32(folder):
    """Losses, in training and evaluation, are those of fp32 but for the rounding of 16 bits; kernels agree with the
    interpreter."""
    found = {}
    for name in ("fp32", "bf16", "fp16"):
        data = gpt(folder, name, "--precision", name, "--workers", "2")
        evaluated = ["--eval-data" if f == "--data" else f for f in data]
        train(folder / name, "--steps", "8", "--metrics", folder / f"{name}.jsonl", *data, *evaluated)
        metrics = read_metrics(folder / f"{name}.jsonl")
        found[name] = [m.get("loss", m.get("eval_loss")) for m in metrics]
    for name, digits in (("bf16", 8), ("fp16", 11)):
        distance = np.abs(np.subtract(found[name], found["fp32"])).max()
        check(0 < distance < 4 * 2.0**-digits, f"{name}: losses differ by {distance}: {found}")


def kept(folder):
    """--keep-fp32 * is fp32 to the bit; a pattern that matches nothing, and flags that do not fit, are told."""
    data = gpt(folder, "fp32")
    train(folder / "fp32", "--steps", "2", "--save", folder / "a", *data)
    gpt(folder, "kept", "--precision", "bf16", "--keep-fp32", "*")
    train(folder / "kept", "--steps", "2", "--save", folder / "b", *data)
    same_checkpoints(folder / "a", folder / "b", "all of it kept")
    source = MODELS / "gpt2" / "export.onnx"
    for flags, words in (
        (("--precision", "bf16", "--keep-fp32", "lm_haed"), "keep-fp32 pattern 'lm_haed' matches no layer, module or"),
        (("--keep-fp32", "lm_head"), "--keep-fp32 keeps what --precision bf16 or fp16 would lower"),
        (("--precision", "fp16", "--master", "none"), "--master none needs --precision bf16, found fp16"),
        (("--precision", "fp64", "--moments", "bf16"), "--moments bf16 and --precision fp64 exclude each other"),
    ):
        result = compile_model(source, folder / "refused", "--dim", "batch=4", *flags, ok=False)
        check(words in result.stderr, f"'{words}' is missing: {result.stderr}")


if __name__ == "__main__":
    harness.main(
        [
            masters,
            sixteen_bit_file,
            double_file,
            accumulators,
            norm,
            large_activations,
            loss_scaling,
            scale_is_bounded,
            hidden_rows,
            hidden_scores,
            resumed,
            close_to_fp32,
            kept,
        ]
    )
