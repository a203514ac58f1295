"""Convolution, attention and matrix products on 16-bit operands, trained: threads do not matter, losses follow f32.

    python narrow.py FOLDER
"""

import pathlib

import numpy as np

import harness
from harness import check, compile_model, run, train_steps

MODEL = pathlib.Path(__file__).resolve().parent / "Inputs" / "narrow.mlir"
STEPS = 12


def narrow_operands(folder):
    random = np.random.RandomState(3)
    labels = random.randint(0, 7, 48)
    images = random.randn(48, 3, 8, 8) + labels[:, None, None, None] / 4
    np.save(folder / "x.npy", images.astype("f4"))
    np.save(folder / "y.npy", labels)
    losses, told = {}, []
    for kind, march in (("f32", "native"), ("bf16", "native"), ("bf16", "x86-64-v2"), ("f16", "native")):
        name = f"{kind}-{march}"
        source = folder / f"{kind}.mlir"
        source.write_text(MODEL.read_text().replace("TYPE", kind))
        compile_model(source, folder / name, "--workers", "2", "--march", march, "--verify")
        # Each library call on random values, every product in it compared with plain sums.
        told.append(run([folder / name, "--verify"]).stdout.strip())
        for threads in ("1", "2"):
            steps = train_steps(
                folder / name,
                folder / f"{name}{threads}.jsonl",
                *harness.data_flags(folder, {"x": "x.npy", "y": "y.npy"}),
                *("--steps", STEPS, "--lr", "3e-3", "--threads", threads, "--save", folder / f"{name}{threads}"),
            )
            losses[name, threads] = [step["loss"] for step in steps]
        check(losses[name, "1"] == losses[name, "2"], f"{name}: threads change the losses: {losses}")
        harness.same_checkpoints(folder / f"{name}1", folder / f"{name}2", f"{name} on one and on two threads")
        # What is stored has 8 (bf16) or 11 bits; errors of the loss stay well below a percent.
        reference, found = np.array(losses["f32-native", "1"]), np.array(losses[name, "1"])
        bound = {"f32": 0, "bf16": 2e-2, "f16": 3e-3}[kind]
        error = np.abs(found - reference).max()
        check(error <= bound, f"{name}: losses {found} are {error:.2g} from those of f32, {reference}")
    check(losses["f32-native", "1"][-1] < 0.7 * losses["f32-native", "1"][0], f"the loss does not fall: {losses}")
    return f"losses {losses['bf16-native', '1']}; {told[1]}"


if __name__ == "__main__":
    harness.main([narrow_operands])
