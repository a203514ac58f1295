"""Trains a model of test/models for 20 steps of AdamW and compares with PyTorch's trajectory in reference.json.

    python trajectory.py FOLDER MODEL fp32|fp64 [VARIANT ...]

Bounds, relative, per step, losses and gradient norms: fp64 1e-10, fp32 1e-5. ResNet-18 in fp32 is chaotic: 1e-5 at the
first step, then three times PyTorch's own distance between fp32 and fp64 at that step. Final weights' norms too.
"""

import json
import math
import os
import sys

import harness
from harness import Failure, MODELS, check

# How many steps of a file follow the module, where not all: of optimised files whose exporter folded parameters away,
# so that they train others. Their first loss is the module's; not even that where ResNet-18's norms are gone. gpt2's fresh
# file lacks the zero biases (test/models/README.md).
FOLDED = {
    **{(m, f"dynamo{o}"): 1 for m in ("bert", "vit") for o in ("18-opt", "23-opt", "18-opt-fresh")},
    **{("resnet18", f"dynamo{o}-opt"): 0 for o in (18, 23)},
    ("gpt2", "dynamo18-opt-fresh"): 1,
    # Two equal modules were merged with their nodes, which leaves no trace.
    ("cases/frozen", "dynamo18-opt"): 1,
    # transformers' own loss leaves out each sequence's last token.
    ("gpt2", "dynamo18-loss"): 0,
}
# Second names of tied parameters that a file does not tell.
HIDDEN = {"bert": {"cls.predictions.bias"}}
# Adding a constant to all keys changes nothing, so this gradient is rounding noise, and AdamW divides it by itself.
NOISE = ("k_proj.bias", "key.bias")
BOUND = {"fp64": 1e-10, "fp32": 1e-5}


def variants_of(model, precision):
    """Files of the model in this precision, the two that differ most first; the rest if SCRIMP_ALL_MODELS is set."""
    files = sorted(
        f.name[:-5] for f in (MODELS / model).glob("*.onnx") if f.name.endswith(".f64.onnx") == (precision == "fp64")
    )
    if os.environ.get("SCRIMP_ALL_MODELS") or precision == "fp64":
        return files
    few = [f for f in ("export", "torchscript17", "dynamo23", "dynamo18-opt-fresh") if f in files]
    return few if "dynamo18-opt-fresh" in few or "dynamo18-opt" not in files else few + ["dynamo18-opt"]


def reference_of(reference, variant, precision):
    """(trajectory, its name): exact scalars where the file holds them exactly."""
    key = "fp64" if variant.startswith("export") or "fp64_rounded" not in reference else "fp64_rounded"
    if variant.endswith("-fresh"):
        key = "fp64_rounded_fresh"
    return reference[key], key


def flags_of(model, reference, variant, precision):
    flags = []
    # The cases' export.onnx is static.
    if variant.startswith("torchscript") or variant.startswith("export") and not model.startswith("cases/"):
        flags += ["--dim", f"batch={reference['batch']}"]
    if variant == "dynamo18-dynamic":
        flags += ["--dim", f"s72={reference['batch']}"]
    if not variant.startswith("export") and variant != "dynamo18-loss":
        flags += ["--loss", reference["loss"]]
    if not variant.startswith("export"):
        # Only scrimp-export writes into the file what is frozen.
        frozen = [name for name, kind in reference.get("tensors", {}).items() if kind == "frozen"]
        flags += [f for name in frozen for f in ("--frozen", name)]
    if precision == "fp64":
        flags += ["--precision", "fp64"]
    if reference["weights"] != "in the files":
        flags += [f for name in reference["inputs"] for f in ("--data", name)]
    if model == "resnet18" and variant.startswith("dynamo"):
        flags += ["--training-mode"]
    return flags


def inputs_of(reference, variant):
    """dynamo18-loss shifts its labels, which are the tokens, in the graph."""
    inputs = dict(reference["inputs"])
    if variant == "dynamo18-loss":
        inputs["labels"] = inputs["input_ids"]
    return inputs


def relative(found, expected):
    return abs(found - expected) / abs(expected)


def compare(model, variant, precision, reference, steps, tensors):
    """The largest deviations of losses, gradient norms and weights' norms."""
    expected, key = reference_of(reference, variant, precision)
    comparable = FOLDED.get((model, variant), len(expected["loss"]))
    check(len(steps) == len(expected["loss"]), f"{len(steps)} steps")
    check(all(math.isfinite(s["loss"]) for s in steps), "a loss is not finite")
    worst = {"loss": 0.0, "grad_norm": 0.0}
    for quantity in worst:
        for step in range(comparable):
            if quantity == "grad_norm" and comparable == 1:
                continue  # of other parameters
            check(quantity in steps[step], f"the metrics have no {quantity}")
            deviation = relative(steps[step][quantity], expected[quantity][step])
            bound = BOUND[precision]
            if precision == "fp32" and step > 0 and "fp32_ways" in reference:
                # Chaos grows from any rounding: PyTorch's own distance is that of the ways it computes in.
                bound = 3 * max(
                    relative(way[quantity][step], reference["fp64"][quantity][step])
                    for way in reference["fp32_ways"].values()
                )
            worst[quantity] = max(worst[quantity], deviation)
            check(
                deviation <= bound,
                f"step {step + 1}: {quantity} {steps[step][quantity]!r}, expected {expected[quantity][step]!r} "
                f"({key}): off by {deviation:.3g}, allowed {bound:.3g}",
            )
    worst["weights"] = (
        compare_weights(model, variant, precision, reference, expected, tensors) if comparable > 1 else 0.0
    )
    return worst


def compare_weights(model, variant, precision, reference, expected, tensors):
    worst = 0.0
    if "-opt" not in variant:
        missing = set(reference.get("tensors", {n: 0 for n in expected["weight_norms"] if not is_buffer(n)})) - set(
            tensors
        )
        missing = {n for n in missing if reference.get("tensors", {}).get(n) != "buffer"}
        if not variant.startswith("export"):
            missing -= HIDDEN.get(model, set())
        check(not missing, f"the checkpoint lacks {sorted(missing)}")
    if precision == "fp32" and "fp32_ways" in reference:
        return worst
    for name, norm in expected["weight_norms"].items():
        if name not in tensors or not norm:
            continue
        deviation = relative(float((tensors[name].astype("f8") ** 2).sum()) ** 0.5, norm)
        bound = BOUND[precision]
        if precision == "fp32" and name in reference["fp32"]["weight_norms"]:
            bound = max(
                bound, 5 * relative(reference["fp32"]["weight_norms"][name], reference["fp64"]["weight_norms"][name])
            )
        if precision == "fp32" and name.endswith(NOISE):
            bound = 1e-3
        worst = max(worst, deviation)
        check(deviation <= bound, f"the final norm of '{name}' is off by {deviation:.3g}, allowed {bound:.3g}")
    return worst


def is_buffer(name):
    return name.rsplit(".", 1)[-1] in (
        "inv_freq",
        "original_inv_freq",
        "running_mean",
        "running_var",
        "num_batches_tracked",
        "bias_mask",
    )


def run_variant(folder, model, variant, precision):
    reference = json.loads((MODELS / model / "reference.json").read_text())
    executable = folder / f"{variant}.train"
    harness.compile_model(
        MODELS / model / f"{variant}.onnx", executable, *flags_of(model, reference, variant, precision)
    )
    steps = harness.train_steps(
        executable,
        folder / f"{variant}.jsonl",
        "--no-shuffle",
        "--steps",
        reference["steps"],
        "--save",
        folder / f"{variant}.ckpt",
        *harness.data_flags(MODELS / model, inputs_of(reference, variant)),
    )
    return compare(model, variant, precision, reference, steps, harness.weights(folder / f"{variant}.ckpt"))


def main():
    folder, model, precision, *variants = sys.argv[1:]
    folder, failed = harness.fresh_folder(folder), 0
    for variant in variants or variants_of(model, precision):
        try:
            worst = run_variant(folder, model, variant, precision)
            print(
                f"passed {model} {variant} {precision}: " + ", ".join(f"{k} {v:.1e}" for k, v in worst.items()),
                flush=True,
            )
        except Failure as failure:
            failed += 1
            print(f"FAILED {model} {variant} {precision}: {failure}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
