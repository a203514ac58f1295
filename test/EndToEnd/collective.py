"""A model that ranks train together, run by the interpreter on 1 to 4 of them and by executables, of many ranks where there is
an MPI: all numbers are equal to the bit.

    python collective.py FOLDER

The data are small integers and the rates powers of two, so that every sum is exact in f64, in whatever order.
"""

import os
import pathlib
import shutil

import numpy as np

import harness
from harness import check, compile_model, newest, read_metrics, read_safetensors, run

MODEL = pathlib.Path(__file__).resolve().parent / "Inputs" / "collective.mlir"
STEPS = 3
STATES = ("w", "m", "v", "n")


def model_of(folder, world):
    """The file of the program for `world` ranks."""
    file = folder / f"world{world}.mlir"
    text = MODEL.read_text()
    for name, value in (("WORLD", world), ("ROWS", 12 // world), ("PART", 192 // world)):
        text = text.replace(name, str(value))
    file.write_text(text)
    return file


def interpret(folder, world, arguments, passes=()):
    """One step of @main on all ranks: a list of the ranks' values for each result."""
    text = model_of(folder, world).read_text()
    # A rank's rows and part are chosen by its number; the others have what all have.
    lines, types = [], []
    for name in ("x", "t", "w", "m", "v", "n", "p"):
        value = arguments[name]
        shape = "x".join(str(n) for n in value.shape) + "xf64"
        lines.append(f"  %{name}0 = scrimp.constant dense<{value.tolist()}> : tensor<{shape}>\n")
        if name in ("x", "t", "m"):
            part = "x".join(str(n) for n in (value.shape[0] // world, *value.shape[1:])) + "xf64"
            lines.append(f"  %{name} = scrimp.shard %{name}0, %rank world {world} : tensor<{shape}> -> tensor<{part}>\n")
            types.append(f"tensor<{part}>")
        else:
            lines.append(f"  %{name} = scrimp.reshape %{name}0 : tensor<{shape}> -> tensor<{shape}>\n")
            types.append(f"tensor<{shape}>")
    types = ", ".join(types)
    text += (
        f'func.func @inputs(%rank: tensor<i64> {{scrimp.scalar = "rank"}}) -> ({types}) {{\n{"".join(lines)}'
        f"  return %x, %t, %w, %m, %v, %n, %p : {types}\n}}\n"
    )
    file = folder / "closed.mlir"
    file.write_text(text)
    if passes:
        run(["scrimp-opt", file, *passes, "-o", folder / "passed.mlir"])
        file = folder / "passed.mlir"
    results = []
    for line in run(["scrimp-run", file, "--world", world, "--inputs", "inputs"]).stdout.splitlines():
        rank, colon, value = line.rpartition(": ")
        if not colon or rank == "rank 0":
            results.append([])
        results[-1].append(np.array(eval(value)))  # pylint: disable=eval-used
    return results


def ranks(folder):
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (12, 16)).astype(np.float64)
    t = rng.integers(-9, 10, (12, 12)).astype(np.float64)
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", t)
    # The plain formula.
    losses, states = [], [{"w": np.ones(192), "m": np.zeros(192), "v": np.ones(192), "n": np.zeros(192)}]
    for _ in range(STEPS):
        w, m = states[-1]["w"].reshape(16, 12), states[-1]["m"]
        e = x @ w - t
        losses.append((e * e).sum())
        m = m / 2 + (x.T @ e).ravel()
        w = w.ravel() - m / 64
        states.append({"w": w, "m": m, "v": w, "n": m})

    planned = "--pass-pipeline=builtin.module(scrimp-form-kernels,func.func(scrimp-schedule),scrimp-plan-memory)"
    for world in (1, 2, 3, 4):
        for passes in ((), ("--canonicalize", "--cse"), (planned,)):
            for step in range(0 if not passes else STEPS - 1, STEPS):
                arguments = {"x": x, "t": t, "p": np.zeros(2), **states[step]}
                loss, *after = interpret(folder, world, arguments, passes)
                what = f"{world} ranks, {passes}, step {step}"
                check(len(loss) == 1 and loss[0] == losses[step], f"{what}: loss {loss}, expected {losses[step]}")
                for name, values in zip(STATES, after):
                    # Parts of `m` behind one another; the rest is the same on all ranks.
                    check(len(values) == (world if name == "m" else 1), f"{what}: {len(values)} values of {name}")
                    value = np.concatenate(values)
                    check((value == states[step + 1][name]).all(), f"{what}: {name} is {value}")

    launchers = [path for path in map(shutil.which, ("mpirun.openmpi", "mpirun.mpich")) if path]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }
    runs = [(1, (), "plain", ()), (1, (), "bare", ("--no-fuse", "--no-schedule"))]
    for launcher in launchers:
        for world in (2, 3):
            name = f"{pathlib.Path(launcher).name}{world}"
            runs.append((world, (launcher, "-n", world), name, ("--verify",) if world == 2 else ()))
    for world, start, name, flags in runs:
        compile_model(model_of(folder, world), folder / name, *flags)
        data = harness.data_flags(folder, {"x": "x.npy", "t": "t.npy"})
        metrics, saved = folder / f"{name}.jsonl", folder / f"{name}-saved"
        run(
            [*start, folder / name, *data, "--steps", STEPS, "--no-shuffle", "--threads", 1]
            + ["--metrics", metrics, "--save", saved],
            env=environment,
        )
        found = [step["loss"] for step in read_metrics(metrics) if "loss" in step]
        check(found == losses, f"{name}: losses {found}, expected {losses}")
        tensors = read_safetensors(newest(saved) / "model.safetensors")
        for state in STATES:
            # A checkpoint takes what is no bucket for the same on all ranks.
            if state != "m" or world == 1:
                check((tensors[state] == states[-1][state]).all(), f"{name}: {state} is {tensors[state]}")
    return f"losses {losses}, {len(launchers)} kinds of MPI"


if __name__ == "__main__":
    harness.main([ranks])
