"""The plan is the truth: the arena to the byte, the process within what it states, no allocation in a step.

python memory.py FOLDER [NAME ...]
"""

import json
import os
import pathlib

import numpy as np

import harness
from harness import MODELS, check, compile_model, run, train, train_steps

SEGMENTS = ("parameters", "optimizer_state", "gradients", "activations", "workspace", "inputs")
HERE = pathlib.Path(__file__).resolve().parent


def each_model():
    for model in ("mlp", "lenet", "gpt2", "resnet18"):
        yield model, json.loads((MODELS / model / "reference.json").read_text())


def build(folder, model, reference, *flags):
    weightless = [f for name in reference["inputs"] for f in ("--data", name)] if model == "resnet18" else []
    compile_model(
        MODELS / model / "export.onnx", folder / model, "--dim", f"batch={reference['batch']}", *weightless, *flags
    )
    return folder / model, harness.data_flags(MODELS / model, reference["inputs"])


def planned_is_measured(folder):
    """arena_bytes of the metrics = peak_bytes of the report; peak RSS within process_bytes, resumed too."""
    told = []
    for model, reference in each_model():
        report_file = folder / f"{model}.json"
        executable, data = build(folder, model, reference, "--report", report_file)
        report = json.loads(report_file.read_text())
        steps = train_steps(
            executable, folder / f"{model}.jsonl", "--steps", "3", "--save", folder / f"{model}.save", *data
        )
        resumed = train_steps(
            executable, folder / f"{model}.2.jsonl", "--steps", "5", "--resume", folder / f"{model}.save", *data
        )
        for metrics in steps + resumed:
            check(
                metrics["arena_bytes"] == report["peak_bytes"],
                f"{model}: arena_bytes {metrics['arena_bytes']}, planned {report['peak_bytes']}",
            )
            over = metrics["peak_rss_bytes"] - report["peak_bytes"]
            check(
                metrics["peak_rss_bytes"] <= report["process_bytes"],
                f"{model}: peak RSS is {over / 2**20:.1f} MiB above the arena of {report['peak_bytes'] / 2**20:.1f}, "
                f"process_bytes are {report['process_bytes'] / 2**20:.1f} MiB",
            )
        # What is stated for a process is no guess: it is close.
        spare = (report["process_bytes"] - max(m["peak_rss_bytes"] for m in steps + resumed)) / 2**20
        check(spare <= 4, f"{model}: process_bytes are {spare:.1f} MiB above the peak RSS")
        told.append(
            f"{model} arena {report['peak_bytes'] / 2**20:.2f} MiB, RSS +{over / 2**20:.1f}, {spare:.1f} less than stated"
        )
    return "; ".join(told)


def library_buffers(folder):
    """Large products: the process stays within what is stated for the kernels of every processor, and close to what is
    stated for this one."""
    source = HERE / "Inputs" / "product.mlir"
    np.save(folder / "x.npy", np.ones((2048, 1024), "f4"))
    told = []
    for name, flags in (("any", ("--march", "x86-64-v2")), ("this", ())):
        report_file = folder / f"{name}.json"
        compile_model(source, folder / name, "--workers", "2", "--report", report_file, *flags)
        report = json.loads(report_file.read_text())
        # Kernels that a processor lacks are not taken, whatever is asked for.
        for core in ("Nehalem", "Sandybridge", "Haswell", "SkylakeX", "Cooperlake") if name == "any" else ("",):
            steps = train_steps(
                folder / name,
                folder / "m.jsonl",
                *("--steps", "2", "--threads", "2"),
                *harness.data_flags(folder, {"x": "x.npy"}),
                env={**os.environ, **({"OPENBLAS_CORETYPE": core} if core else {})},
            )
            peak = steps[-1]["peak_rss_bytes"]
            check(peak <= report["process_bytes"], f"{core}: {peak / 2**20:.1f} MiB, stated {report['process_bytes'] / 2**20:.1f}")
            told.append(f"{core or 'this'} {(report['process_bytes'] - peak) / 2**20:.1f} MiB below")
    check(report["process_bytes"] - peak <= 5 << 20, f"stated {report['process_bytes']}, found {peak}")
    return "; ".join(told)


def reports(folder):
    """Keys and sums of --report, and that scrimp-plan writes the same."""
    for model, reference in each_model():
        flags = ["--dim", f"batch={reference['batch']}", "--quiet"]
        run(["scrimp-plan", MODELS / model / "export.onnx", "--report", folder / f"{model}.json", *flags])
        report = json.loads((folder / f"{model}.json").read_text())
        segments = report["segments"]
        check(set(segments) == set(SEGMENTS), f"{model}: segments {sorted(segments)}")
        check(all(type(v) is int and v >= 0 for v in segments.values()), f"{model}: {segments}")
        check(
            0 < report["lower_bound_bytes"] <= report["peak_bytes"],
            f"{model}: lower bound {report['lower_bound_bytes']}, peak {report['peak_bytes']}",
        )
        check(
            sum(segments.values()) <= report["peak_bytes"],
            f"{model}: segments sum to {sum(segments.values())}, peak {report['peak_bytes']}",
        )
        # fp32 parameters once, AdamW's two moments; ties count once; constants lie with the parameters.
        elements = {"mlp": 1994, "gpt2": 31616}.get(model)
        if elements:
            for name, factor in (("parameters", 4), ("optimizer_state", 8)):
                check(
                    factor * elements <= segments[name] <= factor * elements + 32768,
                    f"{model}: {name} take {segments[name]} bytes, expected {factor * elements}",
                )
        check(report["holders"], f"{model}: nobody holds memory at the peak")
        for holder in report["holders"]:
            check(holder["name"] and holder["bytes"] > 0 and holder["location"], f"{model}: holder {holder}")
        where = {h["name"]: h["location"] for h in report["holders"]}
        check(where["step_size"].endswith("export.onnx"), f"{model}: {where}")
        for kind in ("weight", "weight.exp_avg"):
            names = [n for n in where if n.endswith("." + kind)]
            check(
                names and all(where[n] == n.removesuffix(".exp_avg") for n in names),
                f"{model}: {kind} lie at {[where[n] for n in names]}",
            )
        flops = report["flops"]
        check(set(flops) == {"forward", "backward", "recompute"} and flops["forward"] > 0, f"{model}: flops {flops}")
        check(
            flops["recompute"] == 0 and flops["forward"] < flops["backward"] < 4 * flops["forward"],
            f"{model}: flops {flops}",
        )


def passes_and_timelines(folder):
    """What each pass saved adds up from the plain program to the chosen one; timelines have their peaks; the page shows it."""
    model, flags = MODELS / "gpt2" / "export.onnx", ("--dim", "batch=8", "--quiet", "--workers", "2")
    memory = ("--precision", "bf16", "--micro-batches", "4", "--chunk", "lm_head=2", "--remat", "full")
    report_file = folder / "report.json"
    run(["scrimp-plan", model, *flags, *memory, "--report", report_file])
    report = json.loads(report_file.read_text())
    passes = report["passes"]
    names = ["plain", "kernels", "schedule", "precision", "micro-batches", "chunks", "rematerialization"]
    check([p["pass"] for p in passes] == names, f"{passes}")
    check([p["flags"] for p in passes[3:]] == ["--precision bf16", "--micro-batches 4", "--chunk 'lm_head=2'", "--remat full"], f"{passes}")
    for before, after in zip(passes, passes[1:]):
        check(before["arena_bytes"] - after["saved_bytes"] == after["arena_bytes"], f"{before}, {after}")
        check(abs(before["seconds"] + after["added_seconds"] - after["seconds"]) < 1e-12, f"{before}, {after}")
    check(passes[-1]["arena_bytes"] == report["peak_bytes"], f"{passes[-1]} and {report['peak_bytes']}")
    check(passes[3]["saved_bytes"] > 0 < passes[4]["saved_bytes"], f"{passes}")
    # Each program by itself is what its step's number says.
    run(["scrimp-plan", model, *flags, *memory[:2], "--report", folder / "part.json"])
    check(json.loads((folder / "part.json").read_text())["peak_bytes"] == passes[3]["arena_bytes"], f"{passes[3]}")
    run(["scrimp-plan", model, *flags, "--report", folder / "plain.json"])
    plain = json.loads((folder / "plain.json").read_text())
    check([p["pass"] for p in plain["passes"]] == names[:3], f"{plain['passes']}")
    for name, points, of in (("plain", report["timeline"]["plain"], plain), ("chosen", report["timeline"]["chosen"], report)):
        times = [t for t, _ in points]
        check(times == sorted(times) and times[0] == 0, f"{name}: {times}")
        check(abs(times[-1] - of["passes"][-1]["seconds"]) < 1e-9, f"{name}: {times[-1]} of {of['passes'][-1]}")
        peak = max(b for _, b in points)
        bound = of["lower_bound_bytes"]
        check(0.97 * bound <= peak <= bound, f"{name}: at most {peak} bytes are alive, the lower bound is {bound}")
    run(["scrimp-plan", model, *flags, *memory, "--report", folder / "report.html"])
    page = (folder / "report.html").read_text()
    for words in ("<!DOCTYPE html>", "--micro-batches 4", "<svg", "lm_head", "What each pass saved"):
        check(words in page, f"'{words}' is missing in the page")
    check(page.count("<path") == 2, "two timelines are drawn")


def no_allocation_in_a_step(folder):
    """malloc and its kin are counted by an interposed library; a run of 30 steps calls them as often as one of 3."""
    library = folder / "count.so"
    run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "Inputs" / "count-malloc.c", "-ldl"])
    built = [(m, *build(folder, m, reference)) for m, reference in each_model() if m != "resnet18"]
    for kind in ("bf16", "f16"):
        source = folder / f"{kind}.mlir"
        source.write_text((HERE / "Inputs" / "narrow.mlir").read_text().replace("TYPE", kind))
        compile_model(source, folder / kind)
        np.save(folder / "x.npy", np.ones((24, 3, 8, 8), "f4"))
        np.save(folder / "y.npy", np.arange(24) % 7)
        built.append((kind, folder / kind, harness.data_flags(folder, {"x": "x.npy", "y": "y.npy"})))
    compile_model(MODELS / "gpt2" / "export.onnx", folder / "parts", "--dim", "batch=6", "--micro-batches", "3")
    built.append(("parts", folder / "parts", harness.data_flags(MODELS / "gpt2", harness.INPUTS["gpt2"])))
    for model, executable, data in built:
        counts = []
        for steps in (3, 30):
            counted = folder / f"{model}.{steps}.count"
            train(
                executable,
                "--steps",
                steps,
                "--threads",
                "2",
                "--metrics",
                folder / "m.jsonl",
                *data,
                env={**os.environ, "LD_PRELOAD": str(library), "SCRIMP_COUNT_FILE": str(counted)},
            )
            counts.append(int(counted.read_text()))
        check(0 < counts[0] == counts[1], f"{model}: {counts[0]} allocations in 3 steps, {counts[1]} in 30")


if __name__ == "__main__":
    harness.main([planned_is_measured, library_buffers, reports, passes_and_timelines, no_allocation_in_a_step])
