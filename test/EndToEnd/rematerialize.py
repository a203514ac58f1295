"""Rematerialization: whatever is computed again, not a bit of what is learned changes, and memory falls as it should.

    python rematerialize.py FOLDER [NAME ...]
"""

import json

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, run, same_checkpoints, same_losses, train_steps, weights
from large import gpt
from onnx_writer import model, node, value

# A price of memory at which everything is computed again that may be.
ALL = "tradeoff=1"


def learn(folder, name, source, data, *compile_flags, steps=10, flags=()):
    """Compiles and trains; (steps, checkpoint, report)."""
    compile_model(source, folder / name, "--report", folder / f"{name}.json", *compile_flags)
    metrics = train_steps(
        folder / name, folder / f"{name}.jsonl", "--steps", steps, "--save", folder / f"{name}.save", *data, *flags
    )
    return metrics, folder / f"{name}.save", json.loads((folder / f"{name}.json").read_text())


def transient(report):
    """Bytes that a step needs beside what persists."""
    return sum(report["segments"][s] for s in ("gradients", "activations", "workspace"))


def compare(folder, name, batch, policies, *flags, steps=10):
    """Every policy learns what `none` learns, to the bit."""
    (folder / name).mkdir(exist_ok=True)
    weightless = [f for i in INPUTS[name] for f in ("--data", i)] if name == "resnet18" else []
    data = harness.data_flags(MODELS / name, INPUTS[name])
    source = MODELS / name / "export.onnx"
    reports = {}
    for policy in ("none", *policies):
        file = policy.split("=")[0] + str(len(reports))
        result = learn(
            folder / name, file, source, data, "--dim", f"batch={batch}", *weightless, "--remat", policy, *flags, steps=steps
        )
        reports[policy] = result[2]
        if policy == "none":
            plain = result
            check(len({s["loss"] for s in plain[0]}) == steps, f"{name}: the loss does not move")
            continue
        same_losses(plain[0], result[0], f"{name} with --remat {policy}")
        same_checkpoints(plain[1], result[1], f"{name} with --remat {policy}")
        check(result[2]["flops"]["recompute"] > 0, f"{name} with --remat {policy}: nothing is computed again")
    return reports


def transformers(folder):
    """Causal and masked attention, norms of both kinds, tied heads."""
    for name, policies in (
        ("gpt2", ("full", "selective", "min-cut", ALL, "save=*attn/*", "recompute=*mlp.act*")),
        ("bert", ("full", "selective")),
        ("llama", ("full", ALL)),
        ("vit", ("selective", "full")),
    ):
        compare(folder, name, 4, policies)


def statistics_and_masks(folder):
    """Running statistics move once (24), and masks are drawn alike (23)."""
    compare(folder, "resnet18", 8, ("full", ALL), steps=3)
    compare(folder, "dropout", 8, ("full", ALL))
    compare(folder, "lenet", 4, (ALL,))


def micro_batches(folder):
    """Inside the loop over micro-batches too, also with a rest."""
    compare(folder, "gpt2", 4, ("full", ALL), "--micro-batches", "2")
    compare(folder, "dropout", 8, (ALL,), "--micro-batches", "3", "--clip-grad-norm")
    compare(
        folder, "resnet18", 8, ("full",), "--micro-batches", "2", "--batch-stats", "per-micro-batch", steps=2
    )


def in_16_bits(folder):
    """Casts are computed again alike, also of values near what 16 bits hold (15)."""
    compare(folder, "gpt2", 4, ("full", ALL), "--precision", "bf16")
    rng = np.random.default_rng(0)
    nodes, last, parameters = [], "x", {}
    for i in range(10):
        parameters[f"blocks.{i}.weight"] = (np.eye(16) + rng.normal(0, 0.01, (16, 16))).astype("f4")
        parameters[f"blocks.{i}.bias"] = np.zeros(16, "f4")
        nodes += [
            node("MatMul", [last, f"blocks.{i}.weight"], [f"a{i}"], name=f"/blocks.{i}/MatMul"),
            node("Add", [f"a{i}", f"blocks.{i}.bias"], [f"b{i}"], name=f"/blocks.{i}/Add"),
        ]
        last = f"b{i}"
    nodes += [node("Mul", [last, "small"], ["y"]), node("Mul", ["y", "y"], ["q"])]
    nodes += [node("ReduceMean", ["q"], ["loss"], keepdims=0)]
    parameters["small"] = np.full(1, 1e-5, "f4")
    graph = model(nodes, [value("x", "f4", ["batch", 16])], [value("loss", "f4", [])], parameters)
    (folder / "case.onnx").write_bytes(graph)
    np.save(folder / "x.npy", (1e5 * rng.uniform(0.5, 1, (32, 16))).astype("f4"))
    data = ("--data", f"x={folder}/x.npy")
    common = ("--data", "x", "--dim", "batch=8", "--precision", "bf16", "--frozen", "small", "--optimizer", "sgd")
    plain = learn(folder, "none", folder / "case.onnx", data, *common, steps=4, flags=("--lr", "1e-7"))
    check(all(np.isfinite(s["loss"]) for s in plain[0]), f"losses {plain[0]}")
    for policy in ("full", ALL):
        found = learn(
            folder, policy.split("=")[0], folder / "case.onnx", data, *common, "--remat", policy, steps=4, flags=("--lr", "1e-7")
        )
        same_losses(plain[0], found[0], policy)
        same_checkpoints(plain[1], found[1], policy)


def squares(folder):
    """27: a chain in which every value is read three times."""
    nodes, last = [], "x"
    for i in range(30):
        nodes += [node("Mul", [last, last], [f"s{i}"]), node("Add", [f"s{i}", last], [f"y{i}"])]
        last = f"y{i}"
    nodes += [node("Mul", [last, "w"], ["z"]), node("ReduceSum", ["z"], ["loss"], keepdims=0)]
    nodes[0] = node("Mul", ["x", "v"], ["s0"])
    graph = model(
        nodes,
        [value("x", "f4", ["batch", 64])],
        [value("loss", "f4", [])],
        {"w": np.ones(64, "f4"), "v": np.full(64, 0.01, "f4")},
    )
    (folder / "case.onnx").write_bytes(graph)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(0, 0.01, (64, 64)).astype("f4"))
    data = ("--data", f"x={folder}/x.npy")
    common = ("--data", "x", "--dim", "batch=16")
    plain = learn(folder, "none", folder / "case.onnx", data, *common, steps=5)
    for policy in ("full", ALL, "tradeoff=1e-9"):
        found = learn(folder, policy.replace("=", ""), folder / "case.onnx", data, *common, "--remat", policy, steps=5)
        same_losses(plain[0], found[0], policy)
        same_checkpoints(plain[1], found[1], policy)


def stack(depth, rows=4096, width=64):
    """`depth` blocks Linear, GELU, Linear; as exporters of modules name them."""
    rng = np.random.default_rng(0)
    nodes, last, parameters = [], "x", {}
    for i in range(depth):
        for name, shape in (("up", (width, 4 * width)), ("down", (4 * width, width))):
            parameters[f"blocks.{i}.{name}.weight"] = rng.normal(0, 0.02, shape).astype("f4")
            parameters[f"blocks.{i}.{name}.bias"] = np.zeros(shape[1], "f4")
        nodes += [
            node("MatMul", [last, f"blocks.{i}.up.weight"], [f"a{i}"], name=f"/blocks.{i}/up/MatMul"),
            node("Add", [f"a{i}", f"blocks.{i}.up.bias"], [f"b{i}"], name=f"/blocks.{i}/up/Add"),
            node("Gelu", [f"b{i}"], [f"c{i}"], name=f"/blocks.{i}/act/Gelu"),
            node("MatMul", [f"c{i}", f"blocks.{i}.down.weight"], [f"d{i}"], name=f"/blocks.{i}/down/MatMul"),
            node("Add", [f"d{i}", f"blocks.{i}.down.bias"], [f"e{i}"], name=f"/blocks.{i}/down/Add"),
        ]
        last = f"e{i}"
    nodes += [node("Mul", [last, last], ["q"]), node("ReduceMean", ["q"], ["loss"], keepdims=0)]
    return model(nodes, [value("x", "f4", [rows, width])], [value("loss", "f4", [])], parameters, opset=20)


def blocks_one_at_a_time(folder):
    """66: with `full` eight more blocks add their inputs (1 MiB each), not their inside (72 MiB without)."""
    plans = {}
    for policy in ("full", "none"):
        for depth in (8, 16):
            (folder / "case.onnx").write_bytes(stack(depth))
            run(
                ["scrimp-plan", folder / "case.onnx", "--data", "x", "--quiet", "--remat", policy]
                + ["--report", folder / "plan.json"]
            )
            plans[policy, depth] = json.loads((folder / "plan.json").read_text())
    mib = 1 << 20
    added = transient(plans["full", 16]) - transient(plans["full", 8])
    check(added <= 8 * mib, f"8 more blocks add {added / mib:.2f} MiB")
    added = transient(plans["none", 16]) - transient(plans["none", 8])
    check(68 * mib < added <= 72 * mib, f"8 more blocks add {added / mib:.2f} MiB without rematerialization")
    states = [plans["full", d]["segments"]["optimizer_state"] for d in (8, 16)]
    check(abs(states[1] - states[0] - 2.02 * mib) < 0.01 * mib, f"states: {states}")


def plan(folder, name, *flags):
    report = folder / "plan.json"
    weightless = [f for i in INPUTS[name] for f in ("--data", i)] if name == "resnet18" else []
    source = MODELS / name / "export.onnx"
    run(["scrimp-plan", source, "--dim", "batch=8", "--quiet", "--report", report, *weightless, *flags])
    return json.loads(report.read_text())


def kept(report):
    """Bytes that the forward pass leaves to the backward pass; 16-bit copies of weights are no activations."""
    return sum(r["bytes"] for r in report["residuals"] if not r["name"].endswith(".weight"))


def plans(folder):
    """Every policy plans every kind of model, whole, in micro-batches and in 16 bits, and keeps less than none does."""
    for name in ("lenet", "resnet18", "gpt2", "llama", "bert", "vit"):
        for flags in ((), ("--micro-batches", "2", "--batch-stats", "per-micro-batch"), ("--precision", "bf16")):
            none = plan(folder, name, *flags)
            for policy in ("full", "selective", "min-cut", "tradeoff=1e-9", "tradeoff=inf"):
                found = plan(folder, name, *flags, "--remat", policy)
                check(
                    kept(found) < kept(none) or (name == "lenet" and policy != "tradeoff=inf"),
                    f"{name} {flags} keeps {kept(found)} bytes with {policy}, {kept(none)} with none",
                )


def bytes_per_layer(folder):
    """What one more layer keeps, by the shapes of "Reducing Activation Recomputation" (22B and 175B), in 16 bits."""
    told = []
    for name, batch, width, heads in (("22B", 4, 6144, 64), ("175B", 1, 12288, 96)):
        length = 2048
        unit = length * batch * width
        for policy, bound in (("none", 33), ("selective", 21), ("full", 2.1)):
            sizes = []
            for layers in (3, 4):
                (folder / "case.onnx").write_bytes(gpt(layers, batch, length, width, heads))
                run(
                    ["scrimp-plan", folder / "case.onnx", "--data", "x", "--quiet", "--remat", policy, "--precision", "bf16"]
                    + ["--report", folder / "plan.json"]
                )
                report = json.loads((folder / "plan.json").read_text())
                sizes.append((kept(report), transient(report)))
            added = [(b - a) / unit for a, b in zip(*sizes)]
            check(added[0] <= bound, f"{name}: {policy} keeps {added[0]:.2f} sbh a layer, at most {bound} expected")
            told.append(f"{name} {policy} {added[0]:.2f} sbh (peak {added[1]:.2f})")
    return "; ".join(told)


def activation_bytes(folder):
    """What a layer keeps for the backward pass: a quarter in four micro-batches, half in 16 bits, an eighth in both, within 3%."""
    added = {}
    for flags in ((), ("--micro-batches", 4), ("--precision", "bf16"), ("--micro-batches", 4, "--precision", "bf16")):
        sizes = []
        for layers in (3, 4):
            (folder / "case.onnx").write_bytes(gpt(layers, 8, 256, 768, 12))
            run(["scrimp-plan", folder / "case.onnx", "--data", "x", "--quiet", *flags, "--report", folder / "plan.json"])
            sizes.append(kept(json.loads((folder / "plan.json").read_text())))
        added[flags] = sizes[1] - sizes[0]
    whole, *parts = added.values()
    ratios = [whole / part for part in parts]
    check(np.allclose(ratios, [4, 2, 8], rtol=0.03), f"of {whole} bytes a layer: {ratios} times less")
    return ", ".join(f"{r:.3f}" for r in ratios)


def flops(folder):
    """`full` computes the layers' forward pass once more at most; what ends in a block's kept output it does not."""
    report = folder / "plan.json"
    run(
        ["scrimp-plan", MODELS / "quickstart" / "gpt.onnx", "--dim", "batch=16", "--quiet", "--remat", "full"]
        + ["--report", report]
    )
    work = json.loads(report.read_text())["flops"]
    ratio = 1 + work["recompute"] / (work["forward"] + work["backward"])
    check(1.1 < ratio <= 1.34, f"the step takes {ratio:.3f} times the work")


if __name__ == "__main__":
    harness.main([transformers, statistics_and_masks, micro_batches, in_16_bits, squares, blocks_one_at_a_time, flops, plans, bytes_per_layer, activation_bytes])
