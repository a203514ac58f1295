"""The kernels of a CUDA device, run thread by thread: models learn what they learn on the CPU.

    python emulated.py FOLDER [NAME ...]

SCRIMP_ALL_COMBINATIONS=1 runs every combination of models, precisions, passes and ranks, else some in which any two meet."""

import itertools
import os

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, same_checkpoints, weights
from ranks import ENVIRONMENT

STEPS = "2"
BOUNDS = {"fp32": 1e-5, "fp64": 1e-10, "bf16": 3e-2, "fp16": 1e-2}
LAUNCHER = next((l for l in ("/usr/bin/mpirun.mpich", "/usr/bin/mpirun.openmpi") if os.path.exists(l)), None)
AXES = [
    list(INPUTS),
    list(BOUNDS),
    ["none", "selective", "full", "min-cut"],
    [1, 2],  # micro-batches
    [None, *(range(4) if LAUNCHER else ())],  # the stage of ZeRO on two ranks
]


def learn(folder, name, model, target, *flags, run=(), batch=2):
    """The losses of a run, and its folder of checkpoints. A model stored in double is that for fp64."""
    name = f"{name}-{target}"
    data = harness.data_flags(MODELS / model, INPUTS[model])
    file = "export.f64.onnx" if "fp64" in flags and (MODELS / model / "export.f64.onnx").exists() else "export.onnx"
    world = flags[flags.index("--world") + 1] if "--world" in flags else None
    if not (folder / name).exists():
        compile_model(
            MODELS / model / file, folder / name, "--dim", f"batch={batch}", "--target", target, "--workers", "1" if world else "2", *flags
        )  # fmt: skip
    launch = [LAUNCHER, "-n", world] if world else []
    metrics = folder / f"{name}.jsonl"
    metrics.unlink(missing_ok=True)
    harness.run(
        [*launch, folder / name, *data, "--no-shuffle", "--lr", "1e-3", "--steps", STEPS, "--metrics", metrics,
         "--save", folder / f"{name}.save", *run],
        env={**ENVIRONMENT, **os.environ},
    )  # fmt: skip
    return [m["loss"] for m in harness.read_metrics(metrics) if "loss" in m], folder / f"{name}.save"


def is_possible(row):
    """Batch normalization has one meaning in micro-batches, and one over ranks; not both at once."""
    return not ("resnet18" in row and 2 in row[3:4] and row[4] is not None)


def pairwise(axes):
    """Few rows in which any two choices of different axes meet where they can."""
    places = [(axis, choice) for axis, choices in enumerate(axes) for choice in range(len(choices))]
    missing = {(a, b) for a in places for b in places if a[0] < b[0]}
    rows = []
    while missing:
        chosen = dict(min(missing))
        missing.discard(min(missing))

        def values(chosen):
            return [axes[axis][chosen[axis]] if axis in chosen else None for axis in range(len(axes))]

        if not is_possible(values(chosen)):
            continue
        for axis in range(len(axes)):
            if axis in chosen:
                continue
            choices = [c for c in range(len(axes[axis])) if is_possible(values({**chosen, axis: c}))]
            gain = {c: sum(tuple(sorted([(axis, c), other])) in missing for other in chosen.items()) for c in choices}
            # Nothing is missing: something else each time.
            chosen[axis] = max(choices, key=gain.get) if any(gain.values()) else choices[len(rows) % len(choices)]
        missing -= set(itertools.combinations(sorted(chosen.items()), 2))
        rows.append(values(chosen))
    return rows


def combinations(folder):
    """Each learns what the CPU learns on one process in the same precision, without recomputation."""
    rows = list(filter(is_possible, itertools.product(*AXES))) if os.environ.get("SCRIMP_ALL_COMBINATIONS") else pairwise(AXES)
    for model, precision, remat, count, stage in rows:
        flags = ["--precision", precision]
        if count > 1:
            flags += ["--micro-batches", str(count)]
            if model == "resnet18":
                flags += ["--batch-stats", "per-micro-batch"]
        expected, _ = learn(folder, f"{model}-{precision}-{count}", model, "cpu", *flags, batch=4)
        flags += ["--remat", remat]
        if stage is not None:
            flags += ["--world", "2", "--zero", str(stage)]
            if model == "resnet18":
                flags += ["--batch-stats", "global"]
        name = "-".join([model, *(f.strip("-") for f in flags)])
        found, _ = learn(folder, name, model, "emulated", *flags, batch=4)
        # A batch normalization of few samples: what 24 bits round is larger after an update.
        compared = 1 if model == "resnet18" and precision != "fp64" else int(STEPS)
        worst = max(abs(a - b) / abs(b) for a, b in zip(found[:compared], expected))
        check(len(found) == len(expected) == int(STEPS), f"{name}: {len(found)} steps, {len(expected)} on the CPU")
        check(worst <= BOUNDS[precision], f"{name}: losses {found}, {expected} on the CPU: {worst:.2g} apart")


def recomputed(folder):
    """What is computed again has the same bits."""
    for model, precision in (("gpt2", "bf16"), ("lenet", "fp32"), ("bert", "fp32")):
        flags = ("--precision", precision, "--clip-grad-norm")
        _, plain = learn(folder, f"{model}-plain", model, "emulated", *flags)
        for policy in ("full", "min-cut"):
            _, again = learn(folder, f"{model}-{policy}", model, "emulated", *flags, "--remat", policy)
            same_checkpoints(plain, again, f"{model} with --remat {policy}")


def reruns(folder):
    """The same bits in every order of threads, and when a run is resumed."""
    saved = []
    for order in ("forward", "reverse", "shuffled"):
        os.environ["SCRIMP_EMULATED_ORDER"] = order
        losses, save = learn(folder, "gpt2-order", "gpt2", "emulated")
        saved.append((losses, weights(save)))
    del os.environ["SCRIMP_EMULATED_ORDER"]
    for losses, final in saved[1:]:
        check(losses == saved[0][0], f"losses depend on the order of threads: {losses}, {saved[0][0]}")
        check(all(np.array_equal(final[n], saved[0][1][n]) for n in final), "weights depend on the order of threads")
    first = ("--save-every", "1")
    _, whole = learn(folder, "gpt2-whole", "gpt2", "emulated", run=first)
    data = harness.data_flags(MODELS / "gpt2", INPUTS["gpt2"])
    harness.train(folder / "gpt2-whole-emulated", *data, "--no-shuffle", "--lr", "1e-3", "--steps", STEPS, "--resume",
                  whole / "step-000001", "--save", folder / "resumed")  # fmt: skip
    same_checkpoints(whole, folder / "resumed", "a resumed run")


if __name__ == "__main__":
    harness.main([combinations, recomputed, reruns])
