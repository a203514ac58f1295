"""The known cases of traps.py, micro_batches.py and precision.py, on many ranks under mpirun: how the sums of ranks go wrong.

    python rank_traps.py FOLDER LAUNCHER[,LAUNCHER] [NAME ...]
"""

import itertools
import pathlib
import sys

import numpy as np

import harness
import ranks
from harness import MODELS, check, compile_model, read_metrics, read_safetensors, run
from micro_batches import f8, scores
from onnx_writer import model, node, value
from precision import product
from ranks import ENVIRONMENT, exported, same_steps
from traps import f4, near

SGD = ("--optimizer", "sgd")


class Program:
    """A model compiled for `world` ranks, with its data."""

    def __init__(self, folder, name, graph, data, batch, *flags, world=1):
        self.folder, self.path, self.world = folder, folder / name, world
        source = graph
        if isinstance(graph, bytes):
            source = folder / f"{name}.onnx"
            source.write_bytes(graph)
        files = {n: array if isinstance(array, pathlib.Path) else folder / f"{name}.{n}.npy" for n, array in data.items()}
        for n, array in data.items():
            if files[n] is not array:
                np.save(files[n], array)
        self.data = [f for n, file in files.items() for f in ("--data", f"{n}={file}")]
        named = [f for n in data for f in ("--data", n)] if isinstance(graph, bytes) else []
        worlds = ("--world", world) if world > 1 else ()
        dims = ("--dim", f"batch={batch}") if batch else ()
        compile_model(source, self.path, *named, *dims, *flags, *worlds)

    def command(self, *flags):
        ranks.LAUNCHERS.append(ranks.LAUNCHERS.pop(0))
        start = [ranks.LAUNCHERS[0], "-n", self.world] if self.world > 1 else []
        return [*start, self.path, "--threads", 1, "--no-shuffle", *self.data, *flags]

    def learn(self, steps, *flags, save="save"):
        """(the steps, all tensors of the checkpoint)"""
        metrics, saved = f"{self.path}.{save}.jsonl", f"{self.path}.{save}"
        run(self.command("--steps", steps, "--metrics", metrics, "--save", saved, *flags), env=ENVIRONMENT)
        return [m for m in read_metrics(metrics) if "loss" in m], exported(saved, f"{self.path}.w")


def same_tensors(found, expected, what, bound=0.0):
    check(sorted(found) == sorted(expected), f"{what}: tensors {sorted(found)}, expected {sorted(expected)}")
    for name, array in expected.items():
        check(found[name].shape == array.shape, f"{what}: '{name}' has shape {found[name].shape}")
        distance = np.abs(found[name].astype("f8") - array.astype("f8")).max(initial=0)
        check(distance <= bound * max(1, np.abs(array.astype("f8")).max(initial=0)), f"{what}: '{name}' is off by {distance:.3g}")


def masked(folder):
    """1, 4, 68: the mean over the valid rows of all ranks, of which the second has one, or none; of no row at all it is 0."""
    rows = np.concatenate([3 * np.sin(np.linspace(-2, 2, 20)).reshape(4, 5), np.zeros((2, 5))])
    some = 2 * np.cos(np.arange(40)).reshape(8, 5)
    two = {"flags": (*SGD, "--precision", "fp64"), "batch": 6}
    four = {"flags": (*SGD, "--precision", "fp64", "--micro-batches", 2, "--zero", 2), "batch": 8}
    for kind in (two, four):
        kind["programs"] = {}
    for name, kind, x, labels, expected in (
        ("one", two, rows, [0, 1, 2, 4, -100, -100], 1.874233),
        ("empty", two, rows, [0, 1, 2, -100, -100, -100], None),
        ("none", two, rows, [-100] * 6, 0.0),
        ("few", four, some, [0, 1, 2, 3, -100, 4, -100, -100], 1.442646),
        ("half", four, some, [0, 1, 2, 3, -100, -100, -100, -100], 0.811529),
    ):
        found = {}
        for world in (1, 2):
            if world not in kind["programs"]:
                flags = kind["flags"][:4] if world == 1 else kind["flags"]
                data = {"x": f8(x), "labels": np.array(labels)}
                kind["programs"][world] = Program(folder, f"{name}{world}", scores("f8", 5, 6), data, kind["batch"], *flags, world=world)
            program = kind["programs"][world]
            np.save(folder / "x.npy", f8(x))
            np.save(folder / "labels.npy", np.array(labels))
            program.data = ["--data", f"x={folder}/x.npy", f"labels={folder}/labels.npy"]
            found[world] = program.learn(2, save=name)
        if expected is not None:
            check(abs(found[2][0][0]["loss"] - expected) < 1e-6, f"{name}: loss {found[2][0][0]['loss']}, expected {expected}")
        same_steps(found[2][0], found[1][0], name)
        same_tensors(found[2][1], found[1][1], name, 1e-12)


def clipped(folder):
    """9, 10, 11, 56: ranks with gradients (1, 5) and (2, -1), or parts of .3 and .4: the norm is that of the whole sum, 5 or
    .5, counted once; the update is by it, and the rate moves once an update."""
    graph = model(
        [node("Mul", ["x", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch", 2])],
        [value("loss", "f4", [])],
        {"w": f4([0, 0])},
    )
    large, small = [[1, 5], [1, 1], [1, -3], [0, 1]], [[0.1, 0.4], [0.1, 0.1], [0.1, -0.2], [0, 0.1]]
    x = f4(large + small + 8 * (large + small))  # two updates are looked at, of ten that the schedule has
    cosine = [0.5 * (1 + np.cos(np.pi * (t - 2) / 8)) for t in range(2, 10)]
    for stage, count in ((0, 1), (0, 2), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)):
        flags = (*SGD, "--clip-grad-norm", "--zero", stage, "--micro-batches", count)
        program = Program(folder, f"clip{stage}{count}", graph, {"x": x}, 4, *flags, world=2)
        steps, final = program.learn(10, "--lr", 1, "--clip-norm", 1, "--lr-schedule", "cosine", "--warmup", 2)
        what = f"stage {stage}, {count} micro-batches"
        near([s["grad_norm"] for s in steps], 5 * [5, 0.5], f"{what}: norms")
        near([s["lr"] for s in steps], [0.5, 1, *cosine], f"{what}: rates")
        update = sum(s["lr"] * np.array([0.6, 0.8] if i % 2 == 0 else [0.3, 0.4]) for i, s in enumerate(steps))
        near(-final["w"], update, f"{what}: the weight", 1e-5)


def overflow(folder):
    """10, 13, 20 on one rank: what overflows in fp16 there leaves the step out everywhere; gradients that do not are never
    taken for it, also with fp16 on the wire."""
    t = np.full((8, 2), 1e-2)
    t[5] = 10  # the second rank's sample of the third step; times 65536 it is no number of fp16
    data = {"x": f4(np.random.default_rng(20).uniform(1, 2, (8, 3))), "t": f4(t)}
    graph = product(f4(np.arange(1, 7).reshape(3, 2) / 10))
    flags = ("--precision", "fp16", "--clip-grad-norm")
    for stage in (0, 3):
        program = Program(folder, f"over{stage}", graph, data, 2, *flags, "--zero", stage, world=2)
        go = ("--metrics", f"{program.path}-{{rank}}.jsonl", "--save", f"{program.path}.save", "--save-every", 1)
        run(program.command("--steps", 4, "--lr", "1e-2", "--clip-norm", ".01", *go), env=ENVIRONMENT)
        for rank in (0, 1):
            steps = read_metrics(f"{program.path}-{rank}.jsonl")
            told = [(bool(s.get("skipped")), s["loss_scale"]) for s in steps]
            check(told == [(False, 65536), (False, 65536), (True, 65536), (False, 32768)], f"stage {stage}, rank {rank}: {told}")
        saved = [exported(f"{program.path}.save/step-{step:06}", folder / "w") for step in (2, 3, 4)]
        same_tensors(saved[1], saved[0], f"stage {stage}: the skipped step")
        check((saved[2]["w"] != saved[1]["w"]).all(), f"stage {stage}: nothing was learned after it")
    mean = model(
        [node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["r"]), node("ReduceMean", ["r"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch", 4])],
        [value("loss", "f4", [])],
        {"w": f4(np.full((4, 1), 1e-5))},
    )
    for name, more in (("wide", ()), ("wire", ("--reduce-dtype", "fp16"))):
        program = Program(folder, name, mean, {"x": f4(np.full((2, 4), 40000))}, 2, *flags, *more, world=2)
        (step,), _ = program.learn(1, "--loss-scale", 1)
        check(not step.get("skipped"), f"{name}: the step was skipped")
        near(step["grad_norm"], 80000, f"{name}: the norm of four gradients of 40000", 1e-3)


def tied(folder):
    """14, 29, 34: both uses of a tied embedding count as one parameter whatever is shared out, split and computed again, and
    all stages and numbers of micro-batches learn the same."""
    graph = model(
        [
            node("Gather", ["w", "ids"], ["rows"], name="embed/gather"),
            node("Transpose", ["w"], ["turned"], perm=[1, 0], name="head/transpose"),
            node("MatMul", ["rows", "turned"], ["scores"], name="head/product"),
            node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"], name="loss/entropy"),
        ],
        [value("ids", "i8", ["batch"]), value("labels", "i8", ["batch"])],
        [value("loss", "f8", [])],
        {"w": f8(np.sin(np.arange(12) / 10).reshape(4, 3))},
    )
    data = {"ids": np.array([0, 1, 1]), "labels": np.array([1, 2, 3])}
    one = Program(folder, "one", graph, data, 3, *SGD, "--precision", "fp64").learn(5, "--lr", ".5")
    near(one[0][0]["grad_norm"], 0.228612, "the norm (apart: .246125)", 1e-5)
    for stage, count, remat in ((0, 1, "full"), (1, 2, "none"), (2, 2, "full"), (3, 1, "none"), (3, 2, "full")):
        flags = ("--precision", "fp64", "--zero", stage, "--micro-batches", count, "--remat", remat)
        found = Program(folder, f"tied{stage}{count}", graph, data, 3, *SGD, *flags, world=2).learn(5, "--lr", ".5")
        what = f"stage {stage}, {count} micro-batches, --remat {remat}"
        same_steps(found[0], one[0], what)
        same_tensors(found[1], one[1], what, 1e-12)


def names(folder):
    """30: a tied pair behind other parameters has both its names in what any stage saves, equal, and comes back to the bit."""
    case = MODELS / "cases" / "tied-late"
    data = {"tokens": case / "tokens.npy", "labels": case / "labels.npy"}
    whole = None
    for stage in (1, 2, 3):
        (folder / f"w{stage}").mkdir()
        program = Program(folder, f"late{stage}", case / "export.onnx", data, None, "--zero", stage, world=2)
        _, tensors = program.learn(3)
        pairs = [(a, b) for a, b in itertools.combinations(sorted(tensors), 2) if tensors[a].tobytes() == tensors[b].tobytes()]
        check(any(not {"exp_avg"} & set(a.split(".")) for a, _ in pairs), f"stage {stage}: no two names of one parameter in {sorted(tensors)}")
        again = folder / f"again{stage}"
        run(program.command("--steps", 3, "--resume", f"{program.path}.save"), env=ENVIRONMENT)
        run(program.command("--steps", 0, "--init-from", f"{program.path}.save", "--save", again), env=ENVIRONMENT)
        weights = exported(again, folder / "w")
        for name in weights:
            if "exp_avg" not in name:
                check((weights[name] == tensors[name]).all(), f"stage {stage}: '{name}' came back as something else")
        whole = whole or tensors
        same_tensors(tensors, whole, f"stage {stage} beside stage 1")


def frozen(folder):
    """26: a frozen layer and norm in a block that is computed again, all shared out: one process's weights, and the frozen
    ones' bits are those that they came with. 43: of two checkpoints the named one comes back, and an absent one is an error."""
    case = MODELS / "cases" / "frozen"
    data = {"x": case / "x.npy", "labels": case / "labels.npy"}
    one = Program(folder, "one", case / "export.f64.onnx", data, None, *SGD)
    two = Program(folder, "two", case / "export.f64.onnx", data, None, *SGD, "--zero", 3, "--remat", "full", world=2)
    learned = {p.world: p.learn(4, "--lr", ".1") for p in (one, two)}
    same_steps(learned[2][0], learned[1][0], "frozen")
    same_tensors(learned[2][1], learned[1][1], "frozen", 1e-12)
    first = read_safetensors(case / "export.f64.safetensors")
    kept = [n for n in first if n in learned[2][1] and learned[2][1][n].tobytes() == first[n].tobytes()]
    moved = [n for n in first if n in learned[2][1] and n not in kept]
    listed = run(["scrimp-plan", case / "export.f64.onnx", "--parameters", "--quiet"]).stdout
    check(kept and moved, f"kept {kept}, learned {moved}")
    check(all("frozen" in next(line for line in listed.splitlines() if n in line) for n in kept), f"{kept} did not move: {listed}")
    _, other = two.learn(2, "--lr", ".3", save="other")
    _, back = two.learn(0, "--init-from", f"{two.path}.save", save="back")
    same_tensors(back, learned[2][1], "from the first of two checkpoints")
    check(any((other[n] != back[n]).any() for n in back), "both checkpoints are alike")
    for flag in ("--resume", "--init-from"):
        told = run(two.command("--steps", 4, flag, folder / "absent"), ok=None, env=ENVIRONMENT)
        lines = [line for line in told.stderr.splitlines() if line.startswith("two: ")]
        check(told.returncode and len(lines) == 1 and f"{folder / 'absent'}'" in lines[0], f"{flag}: {told.stderr}")


def tiny(folder):
    """32: parameters of 3, 0 and 8 elements on four ranks, at every stage; the checkpoint keeps the shape [0]."""
    nodes = []
    for name in ("a", "b", "c"):
        nodes += [node("Mul", [name, name], [f"{name}2"]), node("ReduceSum", [f"{name}2"], [f"{name}s"], keepdims=0)]
    nodes += [node("ReduceMean", ["x"], ["xs"], keepdims=0), node("Add", ["as", "bs"], ["s"]), node("Add", ["s", "cs"], ["t"])]
    nodes += [node("Mul", ["t", "xs"], ["loss"])]
    graph = model(
        nodes,
        [value("x", "f8", ["batch"])],
        [value("loss", "f8", [])],
        {"a": f8([1, 2, 3]), "b": np.zeros(0, "f8"), "c": f8(np.linspace(-1, 1, 8))},
    )
    x = f8([1, 2, 3, 4, 2, 2, 1, 1])
    one = Program(folder, "one", graph, {"x": x}, 4).learn(4, "--lr", "1e-2")
    check(one[1]["b"].shape == (0,), f"'b' has shape {one[1]['b'].shape}")
    for stage in (0, 1, 2, 3):
        found = Program(folder, f"tiny{stage}", graph, {"x": x}, 4, "--zero", stage, world=4).learn(4, "--lr", "1e-2")
        same_steps(found[0], one[0], f"stage {stage}")
        same_tensors(found[1], one[1], f"stage {stage}", 1e-12)


def masks(folder):
    """2, 28, 45: each sample's dropout on four ranks in two parts is another than any other's, in every step, and that of one
    process; a rerun and a resumed run draw it again. The gradient of w tells them: sample s adds 4^s where it is kept."""
    graph = model(
        [
            node("Mul", ["x", "w"], ["y"]),
            node("Dropout", ["y", "ratio", "train"], ["z"]),
            node("ReduceSum", ["z"], ["loss"], keepdims=0),
        ],
        [value("x", "f4", ["batch", 4096])],
        [value("loss", "f4", [])],
        {"w": f4(np.zeros(4096)), "ratio": f4(0.5), "train": np.array(True)},
    )
    x = f4(np.repeat(4.0 ** np.arange(8), 4096).reshape(8, 4096))
    programs = [
        Program(folder, "one", graph, {"x": x}, 8, *SGD),
        Program(folder, "four", graph, {"x": x}, 8, *SGD, "--micro-batches", 2, "--zero", 1, world=4),
    ]
    weights = {}
    for program, name in ((programs[0], "one"), (programs[1], "four"), (programs[1], "again")):
        program.learn(3, "--lr", 1, "--seed", 5, "--save-every", 1, save=name)
        saved = [f4(np.zeros(4096))]
        saved += [exported(f"{program.path}.{name}/step-{step:06}", folder / "w")["w"] for step in (1, 2, 3)]
        weights[name] = np.stack([a - b for a, b in zip(saved, saved[1:])])
    for name in ("four", "again"):
        check((weights[name] == weights["one"]).all(), f"{name}: other masks than one process draws")
    program = programs[1]
    _, resumed = program.learn(3, "--resume", f"{program.path}.four/step-000001", save="resumed")
    check((resumed["w"] == exported(f"{program.path}.four", folder / "w")["w"]).all(), "the resumed run drew other masks")
    drawn = (weights["one"][:, None, :] / 2).astype("i8") // 4 ** np.arange(8)[None, :, None] % 4
    check(set(np.unique(drawn)) == {0, 1}, "samples were kept more than once")
    every = drawn.reshape(24, 4096)
    for i, j in itertools.combinations(range(24), 2):
        same = (every[i] == every[j]).mean()
        check(0.45 < same < 0.55, f"masks {i} and {j} agree in {same:.3f} of their elements")
    check(all(0.45 < mask.mean() < 0.55 for mask in every), "a mask keeps another share than half")


def resumed(folder):
    """40, 41: bf16, micro-batches and dropout, at every stage: 2 + 3 steps, of which the first have used four batches of four
    parts, are 5 to the bit."""
    case = MODELS / "dropout"
    data = {n: case / file for n, file in harness.INPUTS["dropout"].items()}
    first = None
    for stage in (0, 1, 2, 3):
        flags = ("--precision", "bf16", "--micro-batches", 2, "--zero", stage, "--moments", "bf16")
        program = Program(folder, f"stage{stage}", case / "export.onnx", data, 8, *flags, world=2)
        whole, tensors = program.learn(5, save="whole")
        start, _ = program.learn(2, save="start")
        check(start[-1]["samples"] == 16, f"stage {stage}: {start}")
        rest, again = program.learn(5, "--resume", f"{program.path}.start", save="rest")
        harness.same_losses(rest, whole[2:], f"stage {stage}")
        same_tensors(again, tensors, f"stage {stage}")
        first = first or tensors
        same_tensors(tensors, first, f"stage {stage} beside stage 0")


def memory(folder):
    """58: 32 MiB of parameters with their moments, shared out to four ranks: a rank that resumes takes what it takes to train."""
    width = 2896
    graph = model(
        [node("MatMul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch", width])],
        [value("loss", "f4", [])],
        {"w": f4(np.ones((width, width)))},
    )
    program = Program(folder, "large", graph, {"x": f4(np.ones((4, width)))}, 4, "--zero", 1, world=4)
    peaks = []
    for flags in (("--steps", 2, "--save", folder / "c"), ("--steps", 4, "--resume", folder / "c")):
        run(program.command("--metrics", folder / "m-{rank}.jsonl", *flags), env=ENVIRONMENT)
        peaks.append([read_metrics(folder / f"m-{rank}.jsonl")[-1]["peak_rss_bytes"] for rank in range(4)])
    check(max(peaks[1]) <= max(peaks[0]) + (8 << 20), f"peaks of training {peaks[0]}, of the resumed run {peaks[1]}")


def decay(folder):
    """63: AdamW decays W and not b, although they lie in one bucket and a rank's share holds parts of both; gradients are 0."""
    graph = model(
        [
            node("MatMul", ["x", "W"], ["y"]),
            node("ReduceSum", ["b"], ["s"], keepdims=0),
            node("ReduceSum", ["x"], ["none"], keepdims=0),
            node("Mul", ["s", "none"], ["sb"]),
            node("ReduceSum", ["y"], ["sy"], keepdims=0),
            node("Add", ["sy", "sb"], ["loss"]),
        ],
        [value("x", "f8", ["batch", 3])],
        [value("loss", "f8", [])],
        {"W": f8([[1], [2], [3]]), "b": f8([4, 5])},
    )
    for world, stage in ((1, 0), (2, 0), (2, 1), (4, 2), (4, 3)):
        flags = ("--precision", "fp64", "--no-decay", "b", "--zero", stage)
        program = Program(folder, f"decay{world}{stage}", graph, {"x": f8(np.zeros((8, 3)))}, 4, *flags, world=world)
        _, found = program.learn(2, "--lr", ".1", "--weight-decay", ".5")
        near(found["W"].ravel(), [0.9025, 1.805, 2.7075], f"{world} ranks, stage {stage}: W", 1e-12)
        near(found["b"], [4, 5], f"{world} ranks, stage {stage}: b", 0)


def wide_sums(folder):
    """67: 256, 1 and -256 of one rank's micro-batches are 1 although bf16 is on the wire, sent once a step or part by part."""
    graph = model(
        [node("Mul", ["x", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)],
        [value("x", "f4", ["batch", 2])],
        [value("loss", "f4", [])],
        {"w": f4([0, 0])},
    )
    x = f4(np.repeat([[256], [1], [-256], [0], [0], [0]], 2, axis=1))
    for stage, sync in itertools.product((1, 2, 3), ("per-step", "per-micro-batch")):
        flags = (*SGD, "--reduce-dtype", "bf16", "--micro-batches", 3, "--zero", stage, "--sync", sync)
        _, found = Program(folder, f"wide{stage}{sync}", graph, {"x": x}, 6, *flags, world=2).learn(1, "--lr", 1)
        near(-found["w"], [1, 1], f"stage {stage}, {sync}: the gradient", 0)


def odd_shapes(folder):
    """70: an embedding of 10 x 3, a matrix of 100 x 1 and vectors of 1 to 7 elements, which four ranks do not divide: what they
    saved comes back to the bit on four, three and one, and goes on as if nothing had been."""
    nodes = [
        node("Gather", ["embed", "ids"], ["rows"]),
        node("Gather", ["tall", "places"], ["chosen"]),
        node("Mul", ["rows", "chosen"], ["products"]),
        node("ReduceSum", ["products", "axis"], ["s0"], keepdims=0),
    ]
    weights = {"embed": f8(np.sin(np.arange(30)).reshape(10, 3)), "tall": f8(np.cos(np.arange(100)).reshape(100, 1))}
    for n in range(1, 8):
        weights[f"v{n}"] = f8(np.linspace(-1, 1, n) + 0.1)
        nodes += [
            node("Mul", [f"v{n}", f"v{n}"], [f"q{n}"]),
            node("ReduceSum", [f"q{n}"], [f"t{n}"], keepdims=0),
            node("Add", [f"s{n - 1}", f"t{n}"], [f"s{n}"]),
        ]
    nodes += [node("Mul", ["s7", "scale"], ["scaled"]), node("ReduceMean", ["scaled"], ["loss"], keepdims=0)]
    graph = model(
        nodes,
        [value("ids", "i8", ["batch"]), value("places", "i8", ["batch"]), value("scale", "f8", ["batch"])],
        [value("loss", "f8", [])],
        {**weights, "axis": np.array([1])},
    )
    data = {"ids": np.arange(12) % 10, "places": np.arange(12) * 8, "scale": f8(np.linspace(0.5, 1.5, 12))}
    rate = ("--lr", "1e-2")
    whole = Program(folder, "whole", graph, data, 12).learn(4, *rate)
    others = [Program(folder, f"on{world}", graph, data, 12, "--zero", 2 if world > 1 else 0, world=world) for world in (3, 1)]
    for stage in (1, 2, 3):
        program = Program(folder, f"four{stage}", graph, data, 12, "--zero", stage, world=4)
        _, saved = program.learn(2, *rate)
        for other in (program, *others):
            what = f"stage {stage}, resumed on {other.world}"
            back = ("--resume", f"{program.path}.save", *rate)
            same_tensors(other.learn(2, *back, save=f"back{stage}")[1], saved, what)
            steps, tensors = other.learn(4, *back, save=f"on{stage}")
            same_steps(steps, whole[0][2:], what)
            same_tensors(tensors, whole[1], what, 1e-12)


def tail(folder):
    """71: 10 samples, 2 a rank on three ranks, are 5 updates in three epochs. Each is of the very samples that one process takes,
    none twice in an epoch, whichever step is the last before a resume."""
    graph = model(
        [node("Mul", ["x", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)],
        [value("x", "f8", ["batch", 10])],
        [value("loss", "f8", [])],
        {"w": f8(np.zeros(10))},
    )
    data = {"x": f8(np.eye(10))}
    programs = {
        1: Program(folder, "one", graph, data, 6, *SGD),
        3: Program(folder, "three", graph, data, 6, *SGD, "--micro-batch-size", 2, world=3),
    }
    used, flags = {}, ("--lr", 1, "--seed", 3)
    for world, program in programs.items():
        program.order = []
        metrics = f"{program.path}-{{rank}}.jsonl"
        epochs = ("--epochs", 3, "--save", f"{program.path}.all", "--save-every", 1, "--metrics", metrics)
        run(program.command(*epochs, *flags), env=ENVIRONMENT)
        for rank in range(world):
            steps = [m for m in read_metrics(metrics.format(rank=rank)) if "loss" in m]
            check([s["samples"] for s in steps] == [6, 12, 18, 24, 30], f"{world} ranks, rank {rank}: {steps}")
        saved = [exported(f"{program.path}.all/step-{step:06}", folder / "w")["w"] for step in range(1, 6)]
        used[world] = -np.stack(saved)
    check((used[1] == used[3]).all(), f"samples used after each step: {used[1]} by one process, {used[3]} by three")
    check((used[3][-1] == 3).all(), f"used after three epochs: {used[3][-1]}")
    for step, counts in enumerate(used[3], 1):
        check(set(counts) <= {6 * step // 10, -(-6 * step // 10)}, f"used after step {step}: {counts}")
    for step in range(1, 5):
        for world, program in programs.items():
            _, tensors = program.learn(5, "--resume", f"{programs[4 - world].path}.all/step-{step:06}", *flags, save=f"from{step}")
            check((-tensors["w"] == used[3][-1]).all(), f"{world} ranks, resumed at step {step}: used {-tensors['w']}")


if __name__ == "__main__":
    ranks.LAUNCHERS.extend(sys.argv.pop(2).split(","))
    harness.main(
        [masked, clipped, overflow, tied, names, frozen, tiny, masks, resumed, memory, decay, wide_sums, odd_shapes, tail]
    )
