"""The kernels of a CUDA device, run thread by thread: models learn what they learn on the CPU.

    python emulated.py FOLDER [NAME ...]

SCRIMP_ALL_COMBINATIONS=1 runs every model in every precision."""

import itertools
import os
import subprocess

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, same_checkpoints, train_steps, weights

STEPS = "2"
BOUNDS = {"fp32": 1e-5, "fp64": 1e-10, "bf16": 3e-2, "fp16": 1e-2}


def learn(folder, name, model, target, *flags, run=()):
    """The losses of a run, and its folder of checkpoints. A model stored in double is that for fp64."""
    name = f"{name}-{target}"
    data = harness.data_flags(MODELS / model, INPUTS[model])
    file = "export.f64.onnx" if "fp64" in flags and (MODELS / model / "export.f64.onnx").exists() else "export.onnx"
    if not (folder / name).exists():
        compile_model(MODELS / model / file, folder / name, "--dim", "batch=2", "--target", target, "--workers", "2", *flags)
    steps = train_steps(
        folder / name, folder / f"{name}.jsonl", *data, "--no-shuffle", "--lr", "1e-3", "--steps", STEPS,
        "--save", folder / f"{name}.save", *run,
    )  # fmt: skip
    return [m["loss"] for m in steps], folder / f"{name}.save"


def compare(folder, model, precision, *flags):
    name = "-".join([model, precision, *(f.strip("-") for f in flags)])
    expected, _ = learn(folder, name, model, "cpu", "--precision", precision, *flags)
    found, _ = learn(folder, name, model, "emulated", "--precision", precision, *flags)
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
    check(len(found) == len(expected) == int(STEPS), f"{name}: {len(found)} steps, {len(expected)} on the CPU")
    check(worst <= BOUNDS[precision], f"{name}: losses {found}, {expected} on the CPU: {worst:.2g} apart")


def precisions(folder):
    """Each model in one precision, each precision with some model; all by option."""
    chosen = [("mlp", "fp64"), ("lenet", "bf16"), ("gpt2", "fp32"), ("llama", "bf16"), ("bert", "fp64"), ("vit", "fp16"),
              ("dropout", "fp32"), ("resnet18", "fp64")]  # fmt: skip
    if os.environ.get("SCRIMP_ALL_COMBINATIONS"):
        chosen = list(itertools.product(INPUTS, BOUNDS))
    for model, precision in chosen:
        compare(folder, model, precision)


def passes(folder):
    """Micro-batches, recomputation and clipping on the device; what is computed again has the same bits."""
    compare(folder, "gpt2", "fp32", "--micro-batches", "2", "--remat", "full", "--clip-grad-norm")
    compare(folder, "llama", "fp64", "--micro-batches", "2", "--remat", "selective")
    for model, precision in (("gpt2", "bf16"), ("lenet", "fp32"), ("bert", "fp32")):
        flags = ("--precision", precision)
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


def ranks(folder):
    """Each rank its own device: two of them learn what the CPU learns."""
    launcher = next((l for l in ("/usr/bin/mpirun.mpich", "/usr/bin/mpirun.openmpi") if os.path.exists(l)), None)
    if not launcher:
        return
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")  # fmt: skip
    expected, _ = learn(folder, "alone", "gpt2", "cpu", "--precision", "fp64")
    name = folder / "two"
    compile_model(MODELS / "gpt2" / "export.f64.onnx", name, "--dim", "batch=2", "--target", "emulated", "--workers", "1",
                  "--precision", "fp64", "--world", "2", "--zero", "3")  # fmt: skip
    done = subprocess.run(
        [launcher, "-n", "2", name, *harness.data_flags(MODELS / "gpt2", INPUTS["gpt2"]), "--no-shuffle", "--lr", "1e-3",
         "--steps", STEPS, "--metrics", f"{folder}/two-{{rank}}.jsonl"],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    check(done.returncode == 0, done.stdout + done.stderr)
    found = [m["loss"] for m in harness.read_metrics(folder / "two-1.jsonl") if "loss" in m]
    check(np.allclose(found, expected, rtol=1e-10, atol=0), f"two ranks: {found}, one on the CPU {expected}")


if __name__ == "__main__":
    harness.main([precisions, passes, reruns, ranks])
