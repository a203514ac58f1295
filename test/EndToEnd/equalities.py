"""What must not change a bit: run twice, threads, fusion, schedule, saving and resuming, a signal in between.

    python equalities.py FOLDER [NAME ...]

Weights, optimizer state, losses and gradient norms are compared by their bytes.
"""

import os
import signal
import subprocess
import time

import harness
from harness import MODELS, check, compile_model, same_checkpoints, same_losses, train, train_steps

MLP = {"x": "x.npy", "labels": "labels.npy"}
IMAGE = {"image": "image.npy", "labels": "labels.npy"}
GPT2 = {"input_ids": "input_ids.npy", "labels": "labels.npy"}


def build(folder, model, batch, *flags, name="train"):
    """The scrimp-export file of `model`, compiled for two threads."""
    compile_model(MODELS / model / "export.onnx", folder / name, "--dim", f"batch={batch}", "--workers", "2", *flags)
    return folder / name


def once(executable, folder, name, model, inputs, *flags, **options):
    """One run; (steps, checkpoint folder)."""
    steps = train_steps(
        executable,
        folder / f"{name}.jsonl",
        "--save",
        folder / name,
        *harness.data_flags(MODELS / model, inputs),
        *flags,
        **options,
    )
    return steps, folder / name


def same_runs(a, b, what):
    same_losses(a[0], b[0], what)
    same_checkpoints(a[1], b[1], what)


def twice_and_threads(folder):
    """Dropout's masks, and every kind of library call, do not depend on the run or on the thread count."""
    for model, batch, inputs in (("dropout", 8, MLP), ("lenet", 4, IMAGE), ("gpt2", 4, GPT2)):
        (folder / model).mkdir()
        executable = build(folder / model, model, batch)
        first, again, two = (
            once(executable, folder / model, name, model, inputs, "--steps", "8", "--threads", threads)
            for name, threads in (("first", 1), ("again", 1), ("two", 2))
        )
        same_runs(first, again, f"{model} run twice")
        same_runs(first, two, f"{model} with 1 and 2 threads")
        check(len({s["loss"] for s in first[0]}) == 8, f"{model}: losses do not move: {first[0]}")


def seeds_matter(folder):
    """The seed reaches dropout and the shuffle: the equalities above do not hold for want of randomness."""
    executable = build(folder, "dropout", 8)
    a, b = (
        once(executable, folder, f"s{seed}", "dropout", MLP, "--steps", "2", "--no-shuffle", "--seed", seed)[0]
        for seed in (1, 2)
    )
    check(a[0]["loss"] != b[0]["loss"], "the seed does not reach dropout")
    executable = build(folder, "mlp", 8)
    a, b, c = (
        once(executable, folder, f"m{seed}{order}", "mlp", MLP, "--steps", "2", "--seed", seed, *order)[0]
        for seed, order in ((1, ()), (2, ()), (1, ("--no-shuffle",)))
    )
    check(len({a[0]["loss"], b[0]["loss"], c[0]["loss"]}) == 3, "the seed does not reach the order of samples")


def resume(folder):
    """3 + 5 steps are 8 steps: weights, moments, order of samples in mid-epoch, masks, schedule (cases 40, 41)."""
    executable = build(folder, "dropout", 8)
    common = ("--lr-schedule", "cosine", "--warmup", "2", "--seed", "7")
    # 32 samples, batch 8: step 3 is within the first epoch, step 8 ends the second.
    whole = once(executable, folder, "whole", "dropout", MLP, "--steps", "8", *common)
    once(executable, folder, "parts", "dropout", MLP, "--steps", "8", "--save-every", "3", *common)
    # Flags that are left out are the checkpoint's.
    parts = once(
        executable, folder, "resumed", "dropout", MLP, "--steps", "8", "--resume", folder / "parts" / "step-000003"
    )
    check([s["step"] for s in parts[0]] == [4, 5, 6, 7, 8], f"resumed steps are {[s['step'] for s in parts[0]]}")
    check(parts[0][0]["samples"] == 32, f"the first resumed step ends at sample {parts[0][0]['samples']}, not 32")
    same_losses(whole[0][3:], parts[0], "resumed")
    same_checkpoints(whole[1], parts[1], "resumed")
    # In the same folder, and with the metrics file going on.
    again = once(executable, folder, "parts", "dropout", MLP, "--steps", "12", "--resume", folder / "parts")
    check(
        [s["step"] for s in again[0]] == list(range(1, 13)),
        f"metrics after a resume hold steps {[s['step'] for s in again[0]]}",
    )


def ragged_epochs(folder):
    """7 samples in batches of 4: a batch goes on into the next permutation; stopping there changes nothing."""
    import numpy as np

    for name in MLP.values():
        np.save(folder / name, np.load(MODELS / "mlp" / name)[:7])
    executable = build(folder, "mlp", 4)
    data = harness.data_flags(folder, MLP)
    run = lambda name, *flags: (
        train_steps(executable, folder / f"{name}.jsonl", "--save", folder / name, *data, *flags),
        folder / name,
    )
    whole = run("whole", "--steps", "7")
    run("two", "--steps", "2")
    same = run("rest", "--steps", "7", "--resume", folder / "two")
    same_losses(whole[0][2:], same[0], "resumed between epochs")
    same_checkpoints(whole[1], same[1], "resumed between epochs")
    check(len(run("epochs", "--epochs", "2")[0]) == 4, "two epochs of 7 samples are not 4 batches of 4")


def sigterm(folder):
    """A signal, mostly between the micro-batches of an update, saves and exits with success; the resumed run is the
    uninterrupted one."""
    executable = build(folder, "gpt2", 4, "--micro-batches", "4")
    steps = 3000
    process = subprocess.Popen(
        [
            executable,
            "--steps",
            str(steps),
            "--save",
            folder / "stopped",
            "--metrics",
            folder / "stopped.jsonl",
            *harness.data_flags(MODELS / "gpt2", GPT2),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = folder / "stopped.jsonl"
    deadline = time.time() + 60
    while (
        time.time() < deadline
        and process.poll() is None
        and not (metrics.exists() and metrics.read_text().count("\n") >= 5)
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    check(process.returncode == 0, f"status {process.returncode} after SIGTERM\n{output}{errors}")
    stopped = int(harness.newest(folder / "stopped").name[5:])
    check(5 <= stopped < steps, f"stopped after step {stopped}")
    check(f"train: warning: stopped by a signal (Terminated) after step {stopped}, which is saved" in errors, errors)
    total = stopped + 5
    data = harness.data_flags(MODELS / "gpt2", GPT2)
    whole = train_steps(executable, folder / "whole.jsonl", "--steps", total, "--save", folder / "whole", *data)
    rest = train_steps(
        executable, metrics, "--steps", total, "--save", folder / "stopped", "--resume", folder / "stopped", *data
    )
    same_losses(whole, rest, "stopped and resumed")
    same_checkpoints(folder / "whole", folder / "stopped", "stopped and resumed")


def fusion_and_schedule(folder):
    """How kernels are formed and ordered does not show in the numbers."""
    for model, batch, inputs in (("gpt2", 4, GPT2), ("lenet", 4, IMAGE), ("dropout", 8, MLP)):
        (folder / model).mkdir()
        runs = [
            once(
                build(folder / model, model, batch, *flags, name=name),
                folder / model,
                f"{name}.run",
                model,
                inputs,
                "--steps",
                "6",
            )
            for name, flags in (("default", ()), ("unfused", ("--no-fuse",)), ("unscheduled", ("--no-schedule",)))
        ]
        same_runs(runs[0], runs[1], f"{model} with --no-fuse")
        same_runs(runs[0], runs[2], f"{model} with --no-schedule")


def clipping(folder):
    """A bound that is never reached changes no bit; one that is reached changes the update, not the reported norm."""
    plain = once(build(folder, "mlp", 8), folder, "plain", "mlp", MLP, "--steps", "4")
    executable = build(folder, "mlp", 8, "--clip-grad-norm", name="clip")
    same_runs(
        plain, once(executable, folder, "loose", "mlp", MLP, "--steps", "4", "--clip-norm", "1e9"), "a loose clip"
    )
    tight = once(executable, folder, "tight", "mlp", MLP, "--steps", "4", "--clip-norm", "0.5")[0]
    check(
        tight[0]["grad_norm"] == plain[0][0]["grad_norm"] > 0.5, "the norm of the first step is not the unclipped one"
    )
    check(tight[3]["loss"] != plain[0][3]["loss"], "clipping had no effect")


if __name__ == "__main__":
    harness.main([twice_and_threads, seeds_matter, resume, ragged_epochs, sigterm, fusion_and_schedule, clipping])
