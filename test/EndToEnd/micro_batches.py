"""Micro-batches: K parts of a batch, one after the other, teach what the whole batch teaches.

    python micro_batches.py FOLDER [NAME ...]

In fp64 the sums differ in their order only, so weights agree to 1e-12 of the largest.
"""

import json

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, read_metrics, run, train, train_steps, weights
from onnx_writer import model, node, value


def learn(folder, name, source, data, *compile_flags, steps=10, flags=()):
    """Compiles and trains; (steps, final weights). data: flags that name the files."""
    compile_model(source, folder / name, "--precision", "fp64", *compile_flags)
    metrics = train_steps(
        folder / name, folder / f"{name}.jsonl", "--steps", steps, "--save", folder / f"{name}.save", *data, *flags
    )
    return metrics, weights(folder / f"{name}.save")


def same_weights(found, expected, what, bound=1e-12):
    """Weights, losses and norms agree to `bound` times the largest weight, or loss; at least 1."""
    (steps, tensors), (whole_steps, whole) = found, expected
    for name, tensor in whole.items():
        distance = np.abs(tensors[name].astype("f8") - tensor.astype("f8")).max(initial=0)
        largest = max(1.0, np.abs(tensor.astype("f8")).max(initial=0))
        check(distance <= bound * largest, f"{what}: '{name}' is off by {distance:.3g}, its largest is {largest:.3g}")
    for step, whole_step in zip(steps, whole_steps):
        for key in ("loss", "grad_norm"):
            distance = abs(step[key] - whole_step[key])
            check(
                distance <= bound * max(1.0, abs(whole_step[key])),
                f"{what}: step {step['step']} has {key} {step[key]!r}, the whole batch {whole_step[key]!r}",
            )


def model_source(name, batch):
    exact = MODELS / name / "export.f64.onnx"
    return exact if exact.exists() else MODELS / name / "export.onnx", ("--dim", f"batch={batch}")


def models(folder):
    """Models of every kind by AdamW, whose eps 1e-3 keeps gradients that are exactly 0 from being amplified, and SGD."""
    cases = (
        ("mlp", "adamw", (2, 3, 8)),
        ("lenet", "sgd", (3,)),
        ("gpt2", "adamw", (2, 3)),
        ("llama", "sgd", (8,)),
        ("bert", "adamw", (3,)),
        ("vit", "adamw", (2,)),
    )
    for name, optimizer, counts in cases:
        source, dims = model_source(name, 8)
        data = harness.data_flags(MODELS / name, INPUTS[name])
        common = (*dims, "--optimizer", optimizer)
        flags = ("--lr", "1e-2", *(("--eps", "1e-3") if optimizer == "adamw" else ()))
        whole = learn(folder, name, source, data, *common, flags=flags)
        for count in counts:
            parts = learn(folder, f"{name}-{count}", source, data, *common, "--micro-batches", count, flags=flags)
            same_weights(parts, whole, f"{name}, {count} micro-batches")


def clipped_and_dropped(folder):
    """Clipping and momentum act once an update, and a sample's mask does not depend on the part it is in."""
    source, dims = model_source("dropout", 8)
    data = harness.data_flags(MODELS / "dropout", INPUTS["dropout"])
    common = (*dims, "--optimizer", "sgd", "--momentum", "--clip-grad-norm")
    flags = ("--lr", "1e-1", "--momentum", ".9", "--clip-norm", ".5")
    whole = learn(folder, "whole", source, data, *common, flags=flags)
    check(len({s["loss"] for s in whole[0]}) == 10, "masks do not change from step to step")
    check(all(s["grad_norm"] > 0.5 for s in whole[0][:3]), f"nothing to clip: {whole[0]}")
    for count in (2, 3, 8):
        parts = learn(folder, f"parts-{count}", source, data, *common, "--micro-batches", count, flags=flags)
        same_weights(parts, whole, f"{count} micro-batches")


def masked(folder):
    """Labels that are ignored: some, all of a part, and all of a batch. Each loss is that of the whole batch."""
    source, dims = model_source("gpt2", 4)
    ids = np.load(MODELS / "gpt2" / "input_ids.npy")[:12]
    labels = np.load(MODELS / "gpt2" / "labels.npy")[:12].copy()
    labels[np.random.default_rng(5).random(labels.shape) < 0.4] = -100
    labels[2:4] = -100  # the second part of two
    labels[8:12] = -100  # the third batch
    np.save(folder / "input_ids.npy", ids)
    np.save(folder / "labels.npy", labels)
    data = (*harness.data_flags(folder, INPUTS["gpt2"]), "--no-shuffle")
    flags = ("--lr", "1e-2")
    whole = learn(folder, "whole", source, data, *dims, "--optimizer", "sgd", steps=5, flags=flags)
    check(whole[0][2]["loss"] == 0 and whole[0][2]["grad_norm"] == 0, f"a batch without labels: {whole[0][2]}")
    for count in (2, 3):
        parts = learn(
            folder, f"p{count}", source, data, *dims, "--optimizer", "sgd", "--micro-batches", count, steps=5, flags=flags
        )
        same_weights(parts, whole, f"{count} micro-batches")


def chunks(folder):
    """Heads and MLPs in chunks of their tokens, in micro-batches too, even and uneven, with dropout inside."""
    cases = (
        ("gpt2", "adamw", (("lm_head=4", "transformer.h.*.mlp=3"), ("--micro-batches", "3"))),
        ("llama", "sgd", (("*.mlp=8",), ("lm_head=5", "--micro-batches", "2"))),
        ("bert", "adamw", (("cls*=4", "bert.encoder.layer.*.intermediate=3"),)),
        ("dropout", "sgd", (("[0-3]=4",), ("2=3", "--micro-batches", "2"))),
        ("lenet", "sgd", (("conv1=4", "fc*=3"),)),
    )
    for name, optimizer, variants in cases:
        source, dims = model_source(name, 8)
        data = harness.data_flags(MODELS / name, INPUTS[name])
        common = (*dims, "--optimizer", optimizer)
        flags = ("--lr", "1e-2", *(("--eps", "1e-3") if optimizer == "adamw" else ()))
        whole = learn(folder, name, source, data, *common, steps=5, flags=flags)
        for i, variant in enumerate(variants):
            rules = [f for v in variant for f in ((v,) if v.startswith("--") or v.isdigit() else ("--chunk", v))]
            parts = learn(folder, f"{name}-{i}", source, data, *common, *rules, steps=5, flags=flags)
            same_weights(parts, whole, f"{name} {' '.join(rules)}")


def chunked_losses(folder):
    """Whatever loss follows a head: distillation from a frozen teacher, and a preference between two answers."""
    random = np.random.default_rng(7)
    log_softmax = lambda x, y, name: node("LogSoftmax", [x], [y], axis=-1, name=name)
    distillation = model(
        [
            node("MatMul", ["x", "w"], ["student"], name="head/student"),
            node("MatMul", ["x", "t"], ["teacher"], name="head/teacher"),
            log_softmax("student", "ls", "loss/student"),
            log_softmax("teacher", "lt", "loss/teacher"),
            node("Exp", ["lt"], ["p"], name="loss/p"),
            node("Sub", ["lt", "ls"], ["difference"], name="loss/difference"),
            node("Mul", ["p", "difference"], ["terms"], name="loss/terms"),
            node("ReduceSum", ["terms", "last"], ["rows"], keepdims=0, name="loss/rows"),
            node("ReduceMean", ["rows"], ["loss"], keepdims=0, name="loss/mean"),
        ],
        [value("x", "f8", ["batch", 6])],
        [value("loss", "f8", [])],
        {"w": random.normal(size=(6, 40)), "t": random.normal(size=(6, 40)), "last": np.array([-1], "i8")},
    )
    answers = []
    for answer in ("a", "b"):
        answers += [
            node("Tanh", [answer], [f"h{answer}"], name="body/tanh"),
            node("MatMul", [f"h{answer}", "w"], [f"scores{answer}"], name="head/scores"),
            log_softmax(f"scores{answer}", f"l{answer}", "loss/log"),
            node("GatherElements", [f"l{answer}", "chosen"], [f"g{answer}"], axis=1, name="loss/gather"),
        ]
    preference = model(
        [
            *answers,
            node("Sub", ["ga", "gb"], ["margin"], name="loss/margin"),
            node("Sigmoid", ["margin"], ["sigmoid"], name="loss/sigmoid"),
            node("Log", ["sigmoid"], ["log"], name="loss/logsigmoid"),
            node("ReduceMean", ["log"], ["mean"], keepdims=0, name="loss/mean"),
            node("Neg", ["mean"], ["loss"], name="loss/negative"),
        ],
        [value("a", "f8", ["batch", 6]), value("b", "f8", ["batch", 6]), value("chosen", "i8", ["batch", 1])],
        [value("loss", "f8", [])],
        {"w": random.normal(size=(6, 40))},
    )
    rows = lambda: random.normal(size=(12, 6))
    for name, graph, flags, arrays in (
        ("distillation", distillation, ("--frozen", "t"), {"x": rows()}),
        ("preference", preference, (), {"a": rows(), "b": rows(), "chosen": random.integers(0, 40, (12, 1))}),
    ):
        (folder / name).mkdir()
        source, data, names = write_case(folder / name, graph, **arrays)
        common = (*names, *flags, "--dim", "batch=12", "--optimizer", "sgd")
        whole = learn(folder / name, "whole", source, data, *common, steps=3, flags=("--lr", ".5"))
        for rules in (("--chunk", "head=4"), ("--chunk", "head=5"), ("--chunk", "head=2", "--micro-batches", "3")):
            variant = "".join(rules).replace("=", "")
            parts = learn(folder / name, variant, source, data, *common, *rules, steps=3, flags=("--lr", ".5"))
            same_weights(parts, whole, f"{name} {' '.join(rules)}")
        report = plan_of(folder, f"{name}.json", source, *common, "--chunk", "head=4")
        largest = max(h["bytes"] for h in report["holders"] if h["kind"] == "activations")
        check(largest < 12 * 40 * 8, f"{name}: {largest} bytes of activations are one value: all logits are there")


def f8(x):
    return np.asarray(x, "f8")


def scores(kind, classes, labels):
    """The mean cross entropy of x w by label; -100 is ignored."""
    return model(
        [
            node("Mul", ["x", "w"], ["scores"]),
            node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"], ignore_index=-100),
        ],
        [value("x", kind, ["batch", classes]), value("labels", "i8", ["batch"])],
        [value("loss", kind, [])],
        {"w": np.ones(1, kind)},
    )


def write_case(folder, graph, **arrays):
    (folder / "case.onnx").write_bytes(graph)
    flags = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        flags += ["--data", f"{name}={folder}/{name}.npy"]
    names = [f for name in arrays for f in ("--data", name)]
    return folder / "case.onnx", (*flags, "--no-shuffle"), names


def mean_of_means(folder):
    """Parts of 3 and 1 valid rows: the mean over all four, not over the two parts' means (1.834853)."""
    x = np.concatenate([3 * np.sin(np.linspace(-2, 2, 20)).reshape(4, 5), np.zeros((2, 5))])
    for name, labels, expected in (
        ("case", [0, 1, 2, 4, -100, -100], 1.874233),
        ("empty", [0, 1, 2, -100, -100, -100], None),
        ("none", [-100] * 6, 0.0),
    ):
        (folder / name).mkdir()
        source, data, names = write_case(
            folder / name, scores("f8", 5, 6), x=f8(x), labels=np.array(labels, "i8")
        )
        common = (*names, "--dim", "batch=6", "--optimizer", "sgd")
        runs = [
            learn(folder / name, f"k{count}", source, data, *common, "--micro-batches", count, steps=2)
            for count in (1, 2, 3, 6)
        ]
        if expected is not None:
            check(abs(runs[0][0][0]["loss"] - expected) < 1e-6, f"{name}: loss {runs[0][0][0]['loss']}")
        for run_ in runs[1:]:
            same_weights(run_, runs[0], name)


def evaluation(folder):
    """62: evaluation in parts is the mean over all valid rows."""
    x = 2 * np.cos(np.arange(24.0)).reshape(6, 4)
    source, data, names = write_case(
        folder, scores("f8", 4, 6), x=f8(x), labels=np.array([0, -100, 1, 2, 0, 1], "i8")
    )
    for count in (1, 3, 4):
        executable = folder / f"k{count}"
        compile_model(
            source, executable, *names, "--precision", "fp64", "--dim", "batch=6", "--micro-batches", count
        )
        evaluated = [f"--eval-data" if f == "--data" else f for f in data if f != "--no-shuffle"]
        train(
            executable, "--steps", "1", "--lr", "0", "--metrics", folder / "m.jsonl", "--eval-every", "1", *data, *evaluated
        )
        found = [m["eval_loss"] for m in read_metrics(folder / "m.jsonl") if "eval_loss" in m]
        check(len(found) >= 1 and abs(found[-1] - 2.369438) < 1e-6, f"{count} micro-batches: evaluated {found}")


def accumulators_are_wide(folder):
    """18: gradients 256 and 1 of two parts add up to 257, although they are bfloat16."""
    graph = model(
        [
            node("Cast", ["x"], ["low"], to=16),
            node("Cast", ["w"], ["narrow"], to=16),
            node("Mul", ["low", "narrow"], ["y"]),
            node("Cast", ["y"], ["high"], to=1),
            node("ReduceSum", ["high"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 1])],
        [value("loss", "f4", [])],
        {"w": np.ones(1, "f4")},
    )
    source, data, names = write_case(folder, graph, x=np.array([[256], [1]], "f4"))
    compile_model(
        source, folder / "train", *names, "--dim", "batch=2", "--optimizer", "sgd", "--micro-batches", "2"
    )
    train(folder / "train", "--steps", "1", "--lr", "1", "--save", folder / "save", *data)
    found = weights(folder / "save")["w"]
    check(found.tolist() == [-256], f"the weight is {found}, expected 1 - 257 = -256")


def to_bf16(x):
    """Rounded to nearest, ties to even, as torch.Tensor.bfloat16."""
    bits = np.ascontiguousarray(x, "f4").view("u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view("f4")


def narrow_accumulators(folder):
    """--accumulate bf16: each part's gradient is added in f32 and the sum rounded to 16 bits, as 20 steps of SGD in numpy do
    it: not what sums in f32 give."""
    graph = model(
        [
            node("MatMul", ["x", "w"], ["y"], name="net/linear"),
            node("Sub", ["y", "t"], ["d"], name="loss/difference"),
            node("Mul", ["d", "d"], ["s"], name="loss/square"),
            node("ReduceMean", ["s"], ["loss"], keepdims=0, name="loss/mean"),
        ],
        [value("x", "f4", ["batch", 8]), value("t", "f4", ["batch", 4])],
        [value("loss", "f4", [])],
        {"w": np.zeros((8, 4), "f4")},
    )
    random = np.random.default_rng(13)
    x, t = random.normal(size=(16, 8)).astype("f4"), random.normal(size=(16, 4)).astype("f4")
    source, data, names = write_case(folder, graph, x=x, t=t)
    found = {}
    for kind in ("fp32", "bf16"):
        flags = ("--dim", "batch=16", "--optimizer", "sgd", "--micro-batches", "8", "--accumulate", kind)
        compile_model(source, folder / kind, *names, *flags)
        save = folder / f"{kind}.save"
        steps = train_steps(
            folder / kind, folder / "m.jsonl", "--steps", "20", "--lr", ".5", "--no-shuffle", "--save", save, *data
        )
        w, losses = np.zeros((8, 4), "f4"), []
        for _ in range(20):
            losses.append(np.mean((x @ w - t) ** 2))
            total = np.zeros_like(w)
            for k in range(0, 16, 2):
                part = x[k : k + 2]
                total = total + part.T @ ((part @ w - t[k : k + 2]) * np.float32(2 / t.size))
                total = to_bf16(total) if kind == "bf16" else total
            w = w - np.float32(0.5) * total
        found[kind] = weights(save)["w"]
        distance = np.abs(found[kind] - w).max()
        check(distance <= 2e-5, f"{kind}: weights are off by {distance:.3g}")
        check(np.allclose([s["loss"] for s in steps], losses, 1e-5), f"{kind}: {[s['loss'] for s in steps]}, {losses}")
    rounded = np.abs(found["bf16"] - found["fp32"]).max()
    check(1e-4 < rounded < 2e-2, f"sums of 16 bits move weights by {rounded:.3g}")


def batch_statistics(folder):
    """Batch normalization mixes samples: an error with the way out, and by it each part's statistics, one after another."""
    graph = model(
        [
            node(
                "BatchNormalization",
                ["x", "scale", "bias", "running_mean", "running_var"],
                ["y", "new_mean", "new_var"],
                training_mode=1,
                momentum=0.9,
                epsilon=1e-2,
            ),
            node("Mul", ["y", "y"], ["z"]),
            node("Mul", ["z", "x"], ["weighted"]),
            node("ReduceMean", ["weighted"], ["loss"], keepdims=0),
        ],
        [value("x", "f8", ["batch", 2])],
        [value("loss", "f8", [])],
        {"scale": f8([1, 2]), "bias": f8([0.5, -1]), "running_mean": f8([0, 1]), "running_var": f8([1, 2])},
    )
    x = f8([[1, 2], [3, 6], [-1, 0.5], [2, 2.5], [4, -3]])
    source, data, names = write_case(folder, graph, x=x)
    common = (*names, "--dim", "batch=5", "--optimizer", "sgd", "--micro-batches", "2")
    result = compile_model(source, folder / "refused", *common, ok=False)
    for words in ("batch_norm", "dimension 0 of 'x'", "--batch-stats per-micro-batch", "--micro-batches 1"):
        check(words in result.stderr, f"'{words}' is missing: {result.stderr}")
    steps, found = learn(
        folder, "own", source, data, *common, "--batch-stats", "per-micro-batch", steps=1, flags=("--lr", "0")
    )
    mean, var, loss, epsilon = f8([0, 1]), f8([1, 2]), 0.0, float(np.float32(1e-2))
    momentum = float(np.float32(0.9))
    for part in (x[:3], x[3:]):
        normal = (part - part.mean(0)) / np.sqrt(part.var(0) + epsilon)
        loss += ((normal * [1, 2] + [0.5, -1]) ** 2 * part).sum() / x.size
        mean = momentum * mean + (1 - momentum) * part.mean(0)
        var = momentum * var + (1 - momentum) * part.var(0, ddof=1)
    for name, expected in (("running_mean", mean), ("running_var", var)):
        check(np.allclose(found[name], expected, 1e-7, 0), f"{name}: {found[name]}, by hand {expected}")
    check(abs(steps[0]["loss"] / loss - 1) < 1e-7, f"loss {steps[0]['loss']}, by hand {loss}")


def products_of_means(folder):
    """61: a loss of means over the batch does not split, and says so instead of learning something else."""
    graph = model(
        [
            node("MatMul", ["x", "w"], ["scores"]),
            node("Softmax", ["scores"], ["p"], axis=-1),
            node("ReduceMean", ["p"], ["mean"], axes=[0], keepdims=0),
            node("Mul", ["mean", "mean"], ["squares"]),
            node("ReduceSum", ["squares"], ["sum"], keepdims=0),
            node("Mul", ["sum", "two"], ["loss"]),
        ],
        [value("x", "f8", ["batch", 2])],
        [value("loss", "f8", [])],
        {"w": np.eye(2), "two": f8(2)},
    )
    source, data, names = write_case(folder, graph, x=f8([[1, 0], [0.5, 0], [0, 1], [0, 2]]))
    common = (*names, "--frozen", "two", "--dim", "batch=4", "--optimizer", "sgd")
    steps, _ = learn(folder, "whole", source, data, *common, steps=1)
    check(abs(steps[0]["loss"] - 1.016685) < 1e-6, f"loss {steps[0]}")
    check(abs(steps[0]["grad_norm"] - 0.093857) < 1e-6, f"gradient {steps[0]}")
    result = compile_model(source, folder / "refused", *common, "--micro-batches", "2", ok=False)
    check("sum over the whole batch" in result.stderr and "--micro-batches 1" in result.stderr, result.stderr)


def arithmetic(folder):
    """54: numbers that do not fit are refused before anything is compiled, all of them named."""
    source = MODELS / "mlp" / "export.onnx"
    for flags, words in (
        (("--micro-batches", "1", "--micro-batch-size", "2"), ("8", "2", "4", "1 rank", "--micro-batches is 1")),
        (("--micro-batches", "9"), ("8 samples", "9 micro-batches")),
        (("--micro-batches", "0"), ("--micro-batches",)),
    ):
        result = compile_model(source, folder / "train", "--dim", "batch=8", *flags, ok=False)
        check(len(result.stderr.splitlines()) == 1, f"{flags}: {result.stderr}")
        check(all(word in result.stderr for word in words), f"{flags}: {result.stderr}")
        check(not (folder / "train").exists(), f"{flags}: left an executable")


def plan_of(folder, name, *flags):
    run(["scrimp-plan", *flags, "--report", folder / name, "--quiet"])
    return json.loads((folder / name).read_text())


def streamed(folder):
    """Of inputs that only the loop reads a part is in memory at a time: the plan is that much smaller, and not a bit of what is
    learned differs; resumed neither. Whatever is wrong with a sample of a late part is told as ever. Uneven parts, and an
    evaluation that ends in a part of a batch."""
    random = np.random.default_rng(11)
    wide = model(
        [
            node("MatMul", ["x", "w"], ["y"], name="net/linear"),
            node("Tanh", ["y"], ["t"], name="net/tanh"),
            node("ReduceMean", ["t"], ["loss"], keepdims=0, name="loss/mean"),
        ],
        [value("x", "f8", ["batch", 512])],
        [value("loss", "f8", [])],
        {"w": random.normal(size=(512, 4))},
    )
    (folder / "m.onnx").write_bytes(wide)
    x = random.normal(size=(29, 512))
    np.save(folder / "x.npy", x)
    data = ("--data", f"x={folder}/x.npy", "--no-shuffle")
    flags = ("--dim", "batch=10", "--optimizer", "sgd")
    evaluated = (*data, "--eval-data", f"x={folder}/x.npy")

    def go(name, *more):
        learned = learn(folder, name, folder / "m.onnx", evaluated, *flags, "--report", folder / f"{name}.json", *more)
        losses = [m["eval_loss"] for m in read_metrics(folder / f"{name}.jsonl") if "eval_loss" in m]
        check(len(losses) == 1, f"{name}: evaluations {losses}")
        return learned, losses[0], json.loads((folder / f"{name}.json").read_text())["segments"]["inputs"]

    whole, loss, inputs = go("whole")
    for count, most in ((5, 2), (4, 3)):  # samples of the largest part
        parts, part_loss, part_inputs = go(f"p{count}", "--micro-batches", count)
        same_weights(parts, whole, f"{count} micro-batches")
        check(abs(part_loss - loss) <= 1e-12, f"{count} micro-batches: evaluated {part_loss}, the whole batch {loss}")
        saved = x[:10].nbytes - x[:most].nbytes
        check(inputs - part_inputs == saved, f"inputs take {inputs} bytes, in {count} parts {part_inputs}; expected {saved} less")
        resident, resident_loss, resident_inputs = go(f"r{count}", "--micro-batches", count, "--no-stream-inputs")
        check(resident_inputs == inputs and resident_loss == part_loss, f"{resident_inputs}, {resident_loss}")
        harness.same_losses(resident[0], parts[0], f"{count} parts of a batch that is there")
        harness.same_checkpoints(folder / f"r{count}.save", folder / f"p{count}.save", f"{count} parts of a batch that is there")
    for name, *more in (("first", "--steps", 3), ("rest", "--steps", 10, "--resume", folder / "first")):
        train(folder / "p4", *data, *more, "--save", folder / name)
    harness.same_checkpoints(folder / "rest", folder / "p4.save", "resumed")

    x[17, 3] = np.nan  # the eighth of the second batch, in the third part of four
    np.save(folder / "x.npy", x)
    result = train(folder / "p4", "--steps", "2", *data, ok=False)
    what = f"loss is nan at step 2: input 'x' holds nan, sample 17 of '{folder}/x.npy'"
    check(what in result.stderr, f"{result.stderr}expected {what}")
    (folder / "short").mkdir()
    train(folder / "p4", "--steps", "1", *data, "--save", folder / "short")


def streamed_tokens(folder):
    """Token windows are read part by part; labels whose valid ones are counted first stay whole. What is no token ends the run
    before anything is saved, in training and in evaluation."""
    source, dims = model_source("gpt2", 6)
    ids = np.load(MODELS / "gpt2" / "input_ids.npy")
    length, vocabulary = ids.shape[1], int(ids.max()) + 1
    tokens = np.random.default_rng(3).integers(0, vocabulary, 12 * length + 1).astype("<u2")
    tokens.tofile(folder / "t.bin")
    data = ("--data", f"input_ids,labels={folder}/t.bin")
    common = (*dims, "--micro-batches", 3)
    saved = []
    for name, more in (("parts", ()), ("there", ("--no-stream-inputs",))):
        learn(folder, name, source, data, *common, *more, "--report", folder / f"{name}.json", steps=3)
        saved.append(json.loads((folder / f"{name}.json").read_text())["segments"]["inputs"])
    harness.same_checkpoints(folder / "parts.save", folder / "there.save", "windows of tokens")
    check(saved[1] - saved[0] == 4 * length * ids.itemsize, f"inputs take {saved} bytes")
    tokens[10 * length + 1] = 65535
    tokens.tofile(folder / "bad.bin")
    bad = (f"input_ids={folder}/bad.bin", f"labels={folder}/t.bin:+1")
    for flags, flag in (([f for b in bad for f in ("--data", b)], "--data"), ([*data, *(f for b in bad for f in ("--eval-data", b))], "--eval-data")):
        result = train(folder / "parts", *flags, "--epochs", 1, "--save", folder / "saved", ok=False)
        for words in (f"{flag}: input 'input_ids', sample 10: value 65535", f"is outside 0 to {vocabulary - 1}"):
            check(words in result.stderr, f"'{words}' is missing: {result.stderr}")
        check(not (folder / "saved").exists(), "something was saved")


if __name__ == "__main__":
    harness.main(
        [
            models,
            clipped_and_dropped,
            masked,
            chunks,
            chunked_losses,
            mean_of_means,
            evaluation,
            accumulators_are_wide,
            narrow_accumulators,
            streamed,
            streamed_tokens,
            batch_statistics,
            products_of_means,
            arithmetic,
        ]
    )
