"""Many ranks under mpirun: whatever they share out, they learn what one process learns, and keep what is planned.

    python ranks.py FOLDER LAUNCHER[,LAUNCHER] [NAME ...]
"""

import json
import os
import re
import sys

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, read_metrics, read_safetensors, run
from large import MODELS as MODELS_WITHOUT_WEIGHTS, gpt
from micro_batches import model_source

# Open MPI: as root, with more ranks than cores.
ENVIRONMENT = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
    OMPI_MCA_hwloc_base_binding_policy="none",
)
LAUNCHERS = []


def learn(folder, name, source, data, *compile_flags, world=1, steps=6, flags=()):
    """Compiles, trains on `world` ranks; the objects of the steps."""
    compile_model(source, folder / name, *compile_flags, *(("--world", world) if world > 1 else ()))
    return train(folder / name, folder / f"{name}.jsonl", data, world, steps, flags)


def train(executable, metrics, data, world, steps, flags):
    command = [executable, "--steps", steps, "--metrics", metrics, "--threads", 1, *data, *flags]
    if world > 1:
        LAUNCHERS.append(LAUNCHERS.pop(0))
        command = [LAUNCHERS[0], "-n", world, *command]
    run(command, env=ENVIRONMENT)
    return [m for m in read_metrics(metrics) if "loss" in m]


def same_steps(found, expected, what, bound=1e-12):
    check(len(found) == len(expected), f"{what}: {len(found)} steps, expected {len(expected)}")
    for step, other in zip(found, expected):
        for key in ("loss", "grad_norm"):
            distance = abs(step[key] - other[key])
            check(
                distance <= bound * max(1.0, abs(other[key])),
                f"{what}: step {step['step']} has {key} {step[key]!r}, one process {other[key]!r}",
            )


def stages(folder):
    """Every stage, micro-batches, rematerialization and uneven shares, pairwise."""
    cases = (
        ("mlp", "adamw", 8, ((2, 0), (3, 1, "--micro-batches", 2), (4, 3), (2, 2, "--micro-batches", 3, "--sync", "per-step"))),
        ("gpt2", "adamw", 6, ((2, 3, "--remat", "full", "--micro-batches", 2), (3, 1, "--clip-grad-norm"), (4, 2))),
        ("dropout", "sgd", 8, ((4, 3, "--persist-below", 64), (2, 1, "--bucket-bytes", "1KiB"))),
        ("bert", "adamw", 4, ((2, 2, "--remat", "selective"),)),
    )
    for name, optimizer, batch, variants in cases:
        source, dims = model_source(name, batch)
        data = harness.data_flags(MODELS / name, INPUTS[name])
        common = (*dims, "--optimizer", optimizer, "--precision", "fp64")
        flags = ("--lr", "1e-2", *(("--eps", "1e-3") if optimizer == "adamw" else ()))
        one = {}
        for world, stage, *more in variants:
            clipped = tuple(f for f in more if f == "--clip-grad-norm")
            if clipped not in one:
                one[clipped] = learn(folder, f"{name}{len(one)}", source, data, *common, *clipped, flags=flags)
            what = f"{name} under {LAUNCHERS[0]} on {world} ranks, stage {stage} {' '.join(map(str, more))}"
            found = learn(folder, f"{name}-{world}-{stage}", source, data, *common, "--zero", stage, *more, world=world, flags=flags)
            same_steps(found, one[clipped], what)


def evaluation(folder):
    """Evaluation over ranks is that of one process, a last batch that is not full included; batch normalization as asked."""
    for name, batch, worlds, flags in (
        ("gpt2", 4, (2, 3), ()),
        ("mlp", 6, (4,), ("--zero", "2")),
        ("lenet", 4, (2,), ()),
    ):
        source, dims = model_source(name, batch)
        data = harness.data_flags(MODELS / name, INPUTS[name])
        part = folder / f"{name}-eval"
        part.mkdir()
        for file in INPUTS[name].values():
            np.save(part / file, np.load(MODELS / name / file)[: 2 * batch + 1])
        evaluated = [f for d in harness.data_flags(part, INPUTS[name]) for f in (("--eval-data",) if d == "--data" else (d,))]
        losses = {}
        for world in (1, *worlds):
            metrics = folder / f"{name}-{world}.jsonl"
            learn(
                folder, f"{name}-{world}", source, data, *dims, "--precision", "fp64", *(flags if world > 1 else ()),
                world=world, steps=4, flags=("--lr", "1e-2", "--eps", "1e-3", *evaluated, "--eval-every", 2)
            )
            losses[world] = [m["eval_loss"] for m in read_metrics(metrics) if "eval_loss" in m]
            check(len(losses[world]) >= 2, f"{name} on {world} ranks: evaluations {losses[world]}")
            for found, one in zip(losses[world], losses[1]):
                check(abs(found - one) <= 1e-12 * max(1, abs(one)), f"{name} on {world} ranks: {losses[world]}, one process {losses[1]}")


def bad_sample(folder):
    """A value that is no token, read by one rank in the middle of a step while the other waits for its gradients, ends both with
    one message that names the sample; nothing is saved."""
    source, dims = model_source("gpt2", 8)
    compile_model(source, folder / "train", *dims, "--world", 2, "--zero", 2, "--micro-batches", 2)
    for name, file in INPUTS["gpt2"].items():
        array = np.load(MODELS / "gpt2" / file)[:8].copy()
        if name == "input_ids":
            array[7, 1] = 1 << 20  # of the second rank's second part
        np.save(folder / file, array)
    LAUNCHERS.append(LAUNCHERS.pop(0))
    flags = ("--steps", 2, "--no-shuffle", "--threads", 1, "--save", folder / "save", "--comm-timeout", 60)
    command = [LAUNCHERS[0], "-n", 2, folder / "train", *flags, *harness.data_flags(folder, INPUTS["gpt2"])]
    result = run(command, ok=False, env=ENVIRONMENT, timeout=40)
    lines = [line for line in result.stderr.splitlines() if "sample 7: value 1048576" in line]
    check(len(lines) == 1 and "rank 1" in lines[0], result.stderr)
    check(not (folder / "save").exists() or not list((folder / "save").iterdir()), "something was saved")


def statistics(folder):
    """Batch normalization by the statistics of all ranks is that of one process; by each rank's own it is another thing, and
    neither is chosen in silence."""
    source, dims = model_source("resnet18", 4)
    data = harness.data_flags(MODELS / "resnet18", INPUTS.get("resnet18"))
    common = (*dims, "--precision", "fp64")
    one = learn(folder, "one", source, data, *common, steps=2)
    same_steps(learn(folder, "all", source, data, *common, "--zero", 1, "--batch-stats", "global", world=2, steps=2), one, "statistics of all")
    # Sums are exchanged, four numbers a channel forward and backward, and the images that these are of are not.
    report = folder / "plan.json"
    run(["scrimp-plan", source, *common, "--world", 2, "--batch-stats", "global", "--zero", 1, "--quiet", "--report", report])
    traffic = {t["collective"]: t["bytes"] for t in json.loads(report.read_text())["communication"]}
    check(traffic["all_reduce"] * 100 < traffic["reduce_scatter"], f"{traffic}")
    own = learn(folder, "own", source, data, *common, "--batch-stats", "per-rank", world=2, steps=2)
    check(abs(own[0]["loss"] - one[0]["loss"]) > 1e-6, "statistics of each rank are those of all")
    refused = compile_model(source, folder / "none", *common, "--world", 2, ok=False).stderr
    check("--batch-stats global" in refused and "--batch-stats per-rank" in refused, refused)


def traffic(folder):
    """What the plan says that ranks send is what they send, and the formula: 2 Psi (N-1)/N up to stage 2, (K+1) Psi (N-1)/N
    with K micro-batches there; in stage 3 3 K Psi (N-1)/N, (2 K + 1) Psi (N-1)/N with --sync per-step, and (K+1) Psi (N-1)/N
    where parameters stay gathered. A block that is computed again, or runs in chunks, is not gathered once more."""
    source, dims = model_source("gpt2", 8)
    data = harness.data_flags(MODELS / "gpt2", INPUTS["gpt2"])
    elements = int(run(["scrimp-plan", source, *dims, "--parameters", "--quiet"]).stdout.split("\n")[-2].split()[0])
    for world, stage, count, factor, *more in (
        (2, 0, 1, 2),
        (4, 0, 2, 2),
        (2, 1, 2, 2),
        (4, 2, 1, 2),
        (2, 2, 2, 3),
        (4, 2, 2, 3),
        (2, 3, 1, 3),
        (2, 3, 2, 6),
        (2, 3, 2, 5, "--sync", "per-step"),
        (2, 3, 2, 3, "--unshard", "*"),
        (2, 3, 2, 6, "--remat", "full"),
        (2, 3, 1, 3, "--chunk", "transformer.h.*.mlp=2"),
    ):
        flags = (*dims, "--zero", stage, "--micro-batches", count, *more)
        steps = learn(folder, f"{world}-{stage}-{count}-{len(more)}-{factor}", source, data, *flags, world=world, steps=2)
        report = folder / "plan.json"
        run(["scrimp-plan", source, *flags, "--world", world, "--quiet", "--report", report])
        plan = json.loads(report.read_text())
        planned = sum(t["bytes"] for t in plan["communication"])
        what = f"{world} ranks, stage {stage}, {count} micro-batches {' '.join(more)}"
        for step in steps:
            # Of a single number one rank sends more than others; planned is the mean.
            check(
                abs(step["sent_bytes"] - planned) <= 64 * world,
                f"{what}: a rank sent {step['sent_bytes']} bytes, planned are {planned}",
            )
        expected = factor * elements * (world - 1) / world
        sent = steps[0]["sent_elements"]
        check(0.98 * expected <= sent <= 1.02 * expected, f"{what}: {sent} elements, the formula has {expected}")


def choices(folder):
    """What is gathered once and kept, and when exchanges start, changes not a bit."""
    source, dims = model_source("gpt2", 8)
    data = harness.data_flags(MODELS / "gpt2", INPUTS["gpt2"])
    for world, *common in ((2, "--precision", "bf16", "--micro-batches", 2), (3, "--precision", "bf16", "--remat", "full", "--clip-grad-norm")):
        flags = (*dims, "--zero", 3, *common)
        plain = learn(folder, "plain", source, data, *flags, world=world, flags=("--save", folder / "plain.saved"))
        for more in (("--unshard", "transformer.h.0", "--unshard", "*h.1.ln_1*"), ("--unshard", "*", "--overlap-bytes", "1MiB")):
            found = learn(folder, "other", source, data, *flags, *more, world=world, flags=("--save", folder / "other.saved"))
            same_steps(found, plain, f"{world} ranks, {common} {more}", bound=0)
            run(["scrimp-checkpoint", "diff", folder / "plain.saved", folder / "other.saved"])


def plan_of(model, *flags):
    """(bytes of the arena, bytes by segment) as scrimp-plan tells them: a report would plan the model six times more."""
    text = run(["scrimp-plan", model, *flags]).stdout
    units = {"KiB": 2**10, "MiB": 2**20}
    segments = {name: float(size) * units[unit] for name, size, unit in re.findall(r"^  (\w+) +([0-9.]+) (KiB|MiB)$", text, re.MULTILINE)}
    return int(re.search(r"^arena +(\d+) bytes", text, re.MULTILINE)[1]), segments


def planned(folder):
    """Shapes of 7.5B and 175B parameters, planned without weights: what each stage keeps, by the formulae of ZeRO
    (arXiv:1910.02054), and a peak that neither a higher stage nor more ranks raise."""
    told = []
    for name, layers, batch, length, width, heads, worlds in (("7.5B", 37, 64, 1024, 4096, 32, (16, 64)), ("175B", 96, 1024, 2048, 12288, 96, (1024,))):
        (folder / "model.onnx").write_bytes(gpt(layers, batch, length, width, heads))
        elements = 12 * layers * width * width
        before = None
        for world in worlds:
            peaks = []
            for stage in (0, 1, 2, 3):
                flags = ("--data", "x", "--precision", "bf16", "--remat", "full", "--world", world, "--zero", stage)
                peak, segments = plan_of(folder / "model.onnx", *flags)
                state = segments["parameters"] + segments["optimizer_state"]
                # Of the 16 bytes an element, 4 are 16-bit copies and gradients, which are freed early here. Biases and
                # norms, which are read in fp32, are whole before stage 3.
                bound = 12 if stage == 0 else 12 / world + (4 * 13 / 12 / width if stage < 3 else 0)
                check(
                    state <= 1.01 * bound * elements,
                    f"{name}, {world} ranks, stage {stage}: {state / elements:.3f} bytes an element, {bound:.3f} expected",
                )
                peaks.append(peak)
            check(peaks == sorted(peaks, reverse=True), f"{name}, {world} ranks: peaks by stage {peaks}")
            if before:
                check(all(a >= b for a, b in zip(before, peaks)), f"{name}: {peaks} on {world} ranks, {before} on fewer")
            before = peaks
            # With micro-batches a rank also has 2 bytes an element of 16-bit copies, and 4 of accumulators: 135, 46.4, 16.9
            # and 2.1 GB of 7.5B on 64 ranks. Stage 3 gathers copies anew. Beside them one block's gradients are on their way
            # and two blocks' copies; of activations nearly nothing.
            if world == 64:
                (folder / "short.onnx").write_bytes(gpt(layers, 2 * world, 64, width, heads))
                for stage, bytes_of in enumerate((18, 6 + 12 / world, 2 + 16 / world, 18 / world)):
                    flags = ("--data", "x", "--precision", "bf16", "--micro-batches", 2, "--world", world, "--zero", stage)
                    (peak, _), states = plan_of(folder / "short.onnx", *flags), bytes_of * elements
                    check(peak <= 1.01 * states + 8 * 12 * width * width, f"stage {stage}: {peak} bytes, states are {states}")
                    check(stage == 3 or peak >= 0.99 * states, f"stage {stage}: {peak} bytes, states are {states}")
            told.append(f"{name} on {world}: {', '.join(f'{p / 1e9:.1f}' for p in peaks)} GB")
    return "; ".join(told)


def peaks(folder):
    """Neither a higher stage nor more ranks raise the peak of a rank: batch and ranks grow together, so that a rank's share of
    the samples stays the same."""
    for name, flags in (
        ("mlp", ()),
        ("gpt2", ("--precision", "bf16", "--micro-batches", 2)),
        ("bert", ("--remat", "full")),
        ("llama", ()),
        ("resnet18", ("--batch-stats", "global")),
    ):
        before = None
        for world in (2, 4, 8):
            source, dims = model_source(name, 4 * world)
            found = []
            for stage in (0, 1, 2, 3):
                found.append(plan_of(source, *dims, "--world", world, "--zero", stage, *flags)[0])
            # Buckets are padded to 256 bytes a rank, of parameters, two states and gradients.
            padding = 4 * 256 * world * 16
            check(all(b <= a + padding for a, b in zip(found, found[1:])), f"{name}, {world} ranks: peaks by stage {found}")
            check(not before or all(b <= a + padding for a, b in zip(before, found)), f"{name}: {found} on {world} ranks, {before} on half")
            before = found


def time(folder):
    """A step in time: what is exchanged is exposed or not, more nodes never make it faster, bytes by link are all bytes; and what
    a user is told."""
    (folder / "model.onnx").write_bytes(MODELS_WITHOUT_WEIGHTS["7.5B"](1024))
    common = ["scrimp-plan", folder / "model.onnx", "--data", "ids", "--data", "labels", "--dim", "batch=64", "--quiet"]
    common += ["--precision", "bf16", "--remat", "full", "--world", 64, "--zero", 3, "--device", "h100"]
    last, report = None, folder / "plan.json"
    for nodes in (1, 8, 64):
        text = run([*common, "--nodes", nodes, "--report", report]).stdout
        plan = json.loads(report.read_text())
        step, traffic = plan["step"], plan["communication"]
        check(step["nodes"] == nodes and 0 < step["mfu"] < 0.8, f"{step}")
        check(abs(step["seconds"] - step["computing_seconds"] - step["exposed_seconds"]) < 1e-9, f"{step}")
        check(abs(step["communicating_seconds"] - step["exposed_seconds"] - step["overlapped_seconds"]) < 1e-9, f"{step}")
        check(abs(step["tokens_per_second"] * step["seconds"] / (64 * 1024) - 1) < 1e-9, f"{step}")
        check(0 <= step["exposed_seconds"] <= step["communicating_seconds"] >= 0.99 * sum(t["seconds"] for t in traffic), f"{step}")
        # Of ranks in n nodes of g, each sends (n-1)/(n g) of the whole to other nodes, and (N-1)/N in all.
        expected = (nodes - 1) / 63
        for t in traffic:
            check(abs(t["between_nodes_bytes"] - expected * t["bytes"]) <= 1e-3 * t["bytes"] + 2 * t["count"], f"{nodes} nodes: {t}")
        check(last is None or step["seconds"] > last, f"{nodes} nodes take {step['seconds']} s, fewer {last}")
        check(f"between {nodes} nodes" in text if nodes > 1 else "between" not in text, text)
        check("MFU" in text and "tokens/s" in text, text)
        last = step["seconds"]
    refused = run([*common, "--nodes", 7], ok=False).stderr
    check("--nodes 7 does not divide --world 64" in refused and len(refused.splitlines()) == 1, refused)
    # Servers of that GPU have eight.
    run([*common, "--report", report])
    check(json.loads(report.read_text())["step"]["nodes"] == 8, "64 ranks are in other than 8 servers")


def exported(checkpoint, output):
    """All that a checkpoint holds, in one file for the model and one for the optimizer, whoever wrote it."""
    tensors = {}
    for flags in ((), ("--optimizer",)):
        run(["scrimp-checkpoint", "export", checkpoint, "-o", output, *flags])
        tensors.update(read_safetensors(output))
    return tensors


def checkpoints(folder):
    """Who saves and who goes on: any number of ranks, at any stage, ends with the weights and states of one process."""
    source, dims = model_source("mlp", 8)
    data = harness.data_flags(MODELS / "mlp", INPUTS["mlp"])
    flags = ("--lr", "1e-2", "--eps", "1e-3")
    worlds = {"one": (1, 0), "stage1": (3, 1), "stage2": (2, 2), "stage3": (4, 3)}
    for who, (world, stage) in worlds.items():
        zero = ("--world", world, "--zero", stage, "--persist-below", 16) if world > 1 else ()
        if who == "stage1":
            zero += ("--bucket-layout", "matrices")
        compile_model(source, folder / who, *dims, "--precision", "fp64", *zero)

    def go(who, name, *more):
        saved = ("--save", folder / f"{name}.saved")
        return train(folder / who, folder / f"{name}.jsonl", data, worlds[who][0], 6, (*flags, *saved, *more))

    steps = {who: go(who, who, "--save-every", 3) for who in worlds}
    final = exported(folder / "one.saved", folder / "w")
    for who, (world, stage) in worlds.items():
        middle = folder / f"{who}.saved" / "step-000003"
        shards = [len(list(middle.glob(f"{kind}*.safetensors"))) for kind in ("model", "optimizer")]
        expected = [world if stage == 3 else 1, world if stage else 1]
        check(shards == expected, f"{who} saved {shards} files, expected {expected}")
        for other in worlds:
            found = go(other, f"{other}-from-{who}", "--resume", middle)
            what = f"{other} from the checkpoint of {who}"
            same_steps(found, steps["one"][3:], what)
            tensors = exported(folder / f"{other}-from-{who}.saved", folder / "w")
            check(sorted(tensors) == sorted(final), f"{what} ends with {sorted(tensors)}")
            for name, value in tensors.items():
                distance = abs(value.astype(float) - final[name].astype(float)).max(initial=0)
                check(distance <= 1e-12, f"{what}: {name} is {distance:.3g} from that of one process")
        run(["scrimp-checkpoint", "diff", folder / f"{who}.saved", folder / f"{who}-from-{who}.saved"])


if __name__ == "__main__":
    LAUNCHERS.extend(sys.argv.pop(2).split(","))
    harness.main([stages, evaluation, bad_sample, statistics, traffic, choices, planned, peaks, time, checkpoints])
