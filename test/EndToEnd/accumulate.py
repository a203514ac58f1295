"""A model with loops, run by its executable and by the interpreter: all numbers are equal to the bit.

    python accumulate.py FOLDER

The data are small integers and the rates powers of two, so that every sum is exact in f64, in whatever order.
"""

import pathlib
import re

import numpy as np

import harness
from harness import check, compile_model, newest, read_safetensors, run, train_steps

MODEL = pathlib.Path(__file__).resolve().parent / "Inputs" / "accumulate.mlir"
STEPS = 3


def interpret(folder, arguments, *passes):
    """One step of @main: its results, as the interpreter prints them."""
    text = MODEL.read_text()
    head = re.search(r"func\.func @main\(.*?\{\n", text, re.S)
    constants = []
    for name, value in arguments.items():
        kind = "i64" if value.dtype == np.int64 else "f64"
        shape = "".join(f"{n}x" for n in value.shape)
        constants.append(f"  %{name} = scrimp.constant dense<{value.tolist()}> : tensor<{shape}{kind}>\n")
    # Constants take the place of the arguments.
    results = re.findall(r"return (.*?) : (.*)\n", text)[-1][1]
    closed = text.replace(head.group(0), f"func.func @main() -> ({results}) {{\n" + "".join(constants))
    file = folder / "closed.mlir"
    file.write_text(closed)
    if passes:
        run(["scrimp-opt", file, *passes, "-o", file])
    lines = run(["scrimp-run", file]).stdout.splitlines()
    return [np.array(eval(line)) for line in lines]  # pylint: disable=eval-used


def loops(folder):
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (16, 3)).astype(np.float64)
    t = rng.integers(-9, 10, (16, 5)).astype(np.float64)
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", t)
    expected = []
    state = {"w": np.ones((3, 5), np.float64), "seen": np.int64(0)}
    for _ in range(STEPS):
        arguments = {"x": x, "t": t, "w": state["w"], "seen": np.array(state["seen"]), "p": np.zeros(2, np.float64)}
        loss, w, seen = interpret(folder, arguments)
        # The plain formula, apart from all loops.
        e = x @ arguments["w"] - t
        check(loss == (e * e).sum(), f"the interpreter's loss is {loss}, expected {(e * e).sum()}")
        check((w == arguments["w"] - x.T @ e / 64).all(), "the interpreter's weights differ from the formula's")
        # Kernels, their order and the plan leave the meaning alone.
        pipeline = "scrimp-form-kernels,func.func(scrimp-schedule),scrimp-plan-memory"
        planned = interpret(folder, arguments, f"--pass-pipeline=builtin.module({pipeline})")
        check(all((a == b).all() for a, b in zip(planned, (loss, w, seen))), "the planned graph has other values")
        expected.append(float(loss))
        state = {"w": w.astype(np.float64), "seen": seen}
    check(int(state["seen"]) == 6 * STEPS, f"the iterations' numbers add up to {state['seen']}")

    for name, flags in (("plain", ()), ("bare", ("--no-fuse", "--no-schedule")), ("verified", ("--verify",))):
        compile_model(MODEL, folder / name, "--workers", "2", *flags)
        for threads in ("1", "2"):
            steps = train_steps(
                folder / name,
                folder / f"{name}{threads}.jsonl",
                *harness.data_flags(folder, {"x": "x.npy", "t": "t.npy"}),
                *("--steps", STEPS, "--no-shuffle", "--threads", threads, "--save", folder / f"{name}{threads}"),
            )
            losses = [step["loss"] for step in steps]
            check(losses == expected, f"{name}, {threads} threads: losses {losses}, expected {expected}")
            saved = read_safetensors(newest(folder / f"{name}{threads}") / "model.safetensors")
            check((saved["w"] == state["w"]).all(), f"{name}: weights {saved['w']}, expected {state['w']}")
            check(saved["seen"] == state["seen"], f"{name}: iterations {saved['seen']}, expected {state['seen']}")
    return f"losses {expected}"


if __name__ == "__main__":
    harness.main([loops])
