"""--memory-budget: the fastest plan that fits, and what it says when none does.

    python budget.py FOLDER [NAME ...]
"""

import json
import os
import pathlib
import re
import shlex
import xml.dom.minidom

import numpy as np

import harness
from harness import MODELS, check, compile_model, read_metrics, run, same_losses, train, train_steps, weights

DEVICE = pathlib.Path(__file__).resolve().parent / "Inputs" / "device.json"
MIB = 1 << 20


def plan(folder, model, *flags):
    """The memory report."""
    run(["scrimp-plan", model, "--quiet", "--workers", "2", "--report", folder / "plan.json", *flags])
    return json.loads((folder / "plan.json").read_text())


def gpt2(batch=12):
    return MODELS / "gpt2" / "export.onnx", ("--dim", f"batch={batch}")


def candidates(model, *flags):
    """[(MiB, flags)] of the front, fastest first."""
    text = run(["scrimp-plan", model, "--quiet", "--workers", "2", "--device", DEVICE, "--pareto", os.devnull, *flags]).stdout
    return [
        (float(size), shlex.split(line)) for size, line in re.findall(r"^ +([0-9.]+) MiB +\S+ s +(.*)$", text, re.MULTILINE)
    ]


def monotone(folder):
    """A plan within the budget or an error; a smaller budget never takes more, and never runs faster."""
    model, dims = gpt2()
    front = candidates(model, *dims)
    check(len(front) > 5, f"{len(front)} candidates: {front}")
    sizes = [size for size, _ in front]
    check(sizes == sorted(sizes, reverse=True), f"the front is not in order: {sizes}")
    last = None
    for budget in np.linspace(sizes[0] * 1.05, sizes[-1] * 0.99, 5):
        flags = (*dims, "--device", DEVICE, "--memory-budget", f"{budget:.4f}MiB")
        if budget < sizes[-1]:
            result = run(["scrimp-plan", model, "--quiet", "--workers", "2", *flags], ok=False)
            for words in ("no plan fits", f"{sizes[-1]:.2f} MiB", "--micro-batches 12", "'lm_head.weight'"):
                check(words in result.stderr, f"'{words}' is missing: {result.stderr}")
            continue
        found = plan(folder, model, *flags)["process_bytes"]
        check(found <= budget * MIB, f"budget {budget} MiB, planned {found / MIB}")
        check(last is None or found <= last, f"a smaller budget takes more: {found} after {last}")
        last = found


def plain_flags(folder):
    """The flags that are printed make the same program without a budget, and the same on another day."""
    model, dims = gpt2()
    budget = ("--device", DEVICE, "--memory-budget", f"{candidates(model, *dims)[3][0]}MiB")
    result = run(["scrimp-compile", model, "--workers", "2", *dims, *budget, "--emit", "mlir", "-o", folder / "a"])
    chosen = re.search(r"^  \* .* s  (.*)$", result.stderr, re.MULTILINE)
    check(chosen, f"no line is marked: {result.stderr}")
    for name, flags in (("b", budget), ("c", shlex.split(chosen[1]))):
        run(["scrimp-compile", model, "--quiet", "--workers", "2", *dims, *flags, "--emit", "mlir", "-o", folder / name])
    texts = [(folder / name).read_bytes() for name in "abc"]
    check(texts[0] == texts[1], "the same command gave another plan")
    check(texts[0] == texts[2], f"{chosen[1]} gave another plan")
    # What is given stays; the rest is chosen.
    fixed = candidates(model, *dims, "--micro-batches", "2", "--remat", "none")
    check(len(fixed) == 1 and "--micro-batches" not in fixed[0][1], f"{fixed}")


def precisions(folder):
    """Of the precisions that are named the fastest that fits is taken, and no other."""
    model, dims = gpt2(batch=24)
    front = candidates(model, *dims, "--precision", "fp32,bf16", "--micro-batches", "1")
    check({f for _, flags in front for f in flags} >= {"fp32", "bf16"}, f"not both are candidates: {front}")
    sizes = [size for size, flags in front if "bf16" in flags]
    flags = (*dims, "--device", DEVICE, "--micro-batches", "1", "--memory-budget", f"{max(sizes)}MiB")
    wide = run(["scrimp-plan", model, "--quiet", "--workers", "2", *flags, "--precision", "fp32"], ok=None)
    both = run(["scrimp-plan", model, "--quiet", "--workers", "2", *flags, "--precision", "bf16,fp32"])
    check(wide.stdout != both.stdout, "naming bf16 changes nothing")
    result = compile_model(model, folder / "train", *dims, "--precision", "fp32,bf16", ok=False)
    check("--memory-budget chooses" in result.stderr, result.stderr)


def impossible(folder):
    """Why a configuration has no plan is told once, in the table's notes and in the report: batch normalization mixes
    samples, so micro-batches are left out."""
    model = MODELS / "resnet18" / "export.onnx"
    flags = ("--dim", "batch=4", *(f for name in harness.INPUTS["resnet18"] for f in ("--data", name)))
    text = run(["scrimp-plan", model, "--quiet", "--workers", "2", "--device", DEVICE, "--pareto", os.devnull, *flags]).stdout
    notes = re.findall(r"^  not possible: (.*)$", text, re.MULTILINE)
    check(len(notes) == 1 and notes[0].startswith("--micro-batches 2 (and 2 more): "), f"{text}")
    check("batch_norm" in notes[0] and "--micro-batches 1" in notes[0], notes[0])
    search = plan(folder, model, *flags, "--device", DEVICE, "--memory-budget", "2GiB")["search"]
    (reason,) = search["impossible"]
    check(reason["flags"] == [f"--micro-batches {k}" for k in (2, 3, 4)], f"{reason}")
    check(notes[0].endswith(reason["why"]), f"{reason} against {notes}")
    check(search["chosen"] == search["candidates"][0]["flags"], f"{search}")
    check(all(c["process_bytes"] > c["arena_bytes"] > 0 < c["seconds"] for c in search["candidates"]), f"{search}")
    # Statistics of its own are allowed: then nothing is impossible.
    own = plan(folder, model, *flags, "--batch-stats", "per-micro-batch", "--device", DEVICE, "--memory-budget", "2GiB")
    check(not own["search"]["impossible"], f"{own['search']['impossible']}")


def sized_parts(folder):
    """--micro-batch-size: chunks are for what is in a part, not for the whole batch."""
    model, dims = gpt2(batch=256)
    front = lambda *flags: {f for _, found in candidates(model, *dims, *flags) for f in found if "lm_head" in f}
    whole, parts, same = front("--micro-batches", "1"), front("--micro-batch-size", "64"), front("--micro-batches", "4")
    check(parts == same != whole, f"{whole}, in parts of 64 {parts}, in four parts {same}")


def over_ranks(folder):
    """What ranks share out and when they add up is chosen too: told in columns and as flags that make the same program; what is
    given stays; a smaller budget never takes more."""
    model, dims = gpt2(batch=48)
    common = ("--world", "4", *dims, "--workers", "2", "--device", DEVICE)

    def choose(budget, *flags):
        result = run(["scrimp-compile", model, *common, *flags, "--memory-budget", f"{budget}MiB", "--emit", "mlir", "-o", folder / "a"])
        rows = re.findall(r"^  ( |\*) +([0-9.]+) MiB +(\S+) s +(\S+) s +([0-9.]+) MiB  (.*)$", result.stderr, re.MULTILINE)
        (chosen,) = [row for row in rows if row[0] == "*"]
        check(float(chosen[1]) <= budget, f"budget {budget}: {result.stderr}")
        return float(chosen[1]), float(chosen[2]), shlex.split(chosen[5]), rows

    size, seconds, flags, rows = choose(100000)
    check({shlex.split(row[5])[1] for row in rows} == {"0", "1", "2", "3"}, f"{rows}")
    check({"--unshard '*'", "--sync per-step", "--overlap-bytes max"} <= {f for row in rows for f in re.findall(r"--\S+ \S+", row[5])}, f"{rows}")
    check(seconds == min(float(row[2]) for row in rows) and "--zero" in flags and flags[-1] == "none", f"{flags} of {rows}")
    # What never fits is told once for a layout, what would fit in the end.
    refused = run(["scrimp-plan", model, *common, "--quiet", "--memory-budget", "1MiB"], ok=False).stderr
    check("no plan fits" in refused and "--zero 3" in refused, refused)
    smallest = float(re.search(r"the smallest takes ([0-9.]+) MiB", refused)[1])
    sizes = [size]
    for part in (0.6, 0.25, 0.02):
        size, slower, flags, rows = choose(smallest + part * (sizes[0] - smallest))
        check(size <= sizes[-1] and slower >= seconds, f"{part} of {sizes[0]} MiB: {size} MiB, {slower} s")
        run(["scrimp-compile", model, *common[:-2], "--quiet", *flags, "--emit", "mlir", "-o", folder / "b"])
        check((folder / "a").read_bytes() == (folder / "b").read_bytes(), f"{flags} gave another plan")
        sizes.append(size)
        seconds = slower
    check(sizes[-1] < sizes[0], f"{sizes}")
    # What is given is no choice.
    _, _, flags, rows = choose(100000, "--zero", "2", "--micro-batches", "2")
    check("--zero" not in flags and "--micro-batches" not in flags, f"{flags}")
    check({" ".join(shlex.split(row[5])[:2]) for row in rows} == {"--overlap-bytes max", "--sync per-step"}, f"{rows}")
    _, _, flags, rows = choose(100000, "--sync", "per-step")
    check(all("--sync" not in row[5] for row in rows), f"{rows}")


def measured(folder):
    """The process stays within the budget, and learns what the plain program learns, to rounding."""
    model, dims = gpt2(batch=8)
    flags = (*dims, "--optimizer", "sgd")
    data = harness.data_flags(MODELS / "gpt2", harness.INPUTS["gpt2"])
    compile_model(model, folder / "whole", *flags, "--workers", "2")
    smallest = candidates(model, *flags)[-1][0]
    compile_model(
        model, folder / "tight", *flags, "--workers", "2", "--device", DEVICE, "--memory-budget", f"{smallest + .1}MiB"
    )
    losses = []
    for name in ("whole", "tight"):
        steps = train_steps(folder / name, folder / f"{name}.jsonl", "--steps", "5", "--lr", ".1", *data)
        losses.append([step["loss"] for step in steps])
    check(np.allclose(losses[0], losses[1], 1e-5, 0), f"losses {losses}")
    peak = max(m["peak_rss_bytes"] for m in read_metrics(folder / "tight.jsonl") if "peak_rss_bytes" in m)
    check(peak <= (smallest + 0.1) * MIB, f"the process took {peak / MIB} MiB of {smallest + .1}")


def limited(folder):
    """What does not fit the process's limit is refused before it starts; what was made for that limit trains in it."""
    model, dims = gpt2(batch=8)
    data = harness.data_flags(MODELS / "gpt2", harness.INPUTS["gpt2"])
    # 1.5 GiB of tokens: nothing is allocated for the one that is refused.
    compile_model(model, folder / "whole", "--dim", "batch=20000", "--workers", "1")
    limit = ("sh", "-c", 'ulimit -v 1000000 && exec "$@"', "sh")
    result = run([*limit, folder / "whole", "--steps", "1", *data], ok=False)
    for words in ("RLIMIT_AS", "976.6 MiB", "--memory-budget 976MiB"):
        check(words in result.stderr, f"'{words}' is missing: {result.stderr}")
    compile_model(model, folder / "fits", *dims, "--workers", "1", "--device", DEVICE, "--memory-budget", "976MiB")
    run([*limit, folder / "fits", "--steps", "1", *data])


def profile(folder):
    """--profile tells where the time went, by the model's names, beside what was expected; --trace when."""
    model, dims = gpt2(batch=8)
    data = harness.data_flags(MODELS / "gpt2", harness.INPUTS["gpt2"])
    compile_model(model, folder / "train", *dims, "--micro-batches", "2", "--device", DEVICE)
    plain = train_steps(folder / "train", folder / "plain.jsonl", "--steps", "3", *data)
    result = train(folder / "train", "--steps", "3", "--profile", "--metrics", folder / "m.jsonl", *data)
    same_losses(plain, [m for m in read_metrics(folder / "m.jsonl") if "loss" in m], "with --profile")
    kinds, names = result.stdout.split("ms/step")[1:]
    shares = [float(s) for s in re.findall(r"([0-9.]+)%", kinds)]
    check(abs(sum(shares) - 100) < 1, f"the shares add up to {sum(shares)}: {kinds}")
    for what in ("gemm", "attention_grad", "kernel", "expected"):
        check(what in kinds, f"no {what}: {kinds}")
    # The head's product: forward and two gradients, each of two micro-batches.
    head = re.search(r" +[0-9.]+ +[0-9.]+% +([0-9.]+) +(\d+)  gemm +lm_head", names)
    check(head and float(head[1]) > 0 and int(head[2]) == 6, f"the head: {names}")
    traced = train_steps(folder / "train", folder / "t.jsonl", "--steps", "3", "--trace", folder / "trace.json", *data)
    same_losses(plain, traced, "with --trace")
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    for what, count in (("step", 2), ("iteration", 4), ("repeat", 2)):
        check(sum(e.get("cat") == what for e in events) == count, f"{what}s in the trace: {events}")
    products = [e for e in events if e.get("cat") == "gemm" and e["tid"] == 0 and e["name"].startswith("lm_head")]
    check(len(products) == 2 * 6, f"the head's products: {products}")
    check(all(e["dur"] > 0 and e["args"]["expected_us"] > 0 for e in products), f"{products}")


def bad_input(folder):
    model, dims = gpt2()
    (folder / "text.json").write_text("no JSON")
    (folder / "lacks.json").write_text('{"library_flops_16": 1e9}')
    for flags, words in (
        (("--memory-budget", "12parsecs"), ("'12parsecs' is no size", "6GiB")),
        (("--memory-budget", "-3GiB"), ("is no size",)),
        (("--memory-budget", "1GiB", "--device", "abacus"), ("unknown --device 'abacus'", "h100", "scrimp-calibrate")),
        (("--memory-budget", "1GiB", "--device", folder / "none.json"), ("cannot read device",)),
        (("--memory-budget", "1GiB", "--device", folder / "text.json"), ("is no JSON",)),
        (("--memory-budget", "1GiB", "--device", folder / "lacks.json"), ("positive number 'library_flops_32'",)),
    ):
        given = () if "--device" in flags else ("--device", DEVICE)
        result = compile_model(model, folder / "train", *dims, *flags, *given, ok=False)
        check(len(result.stderr.splitlines()) == 1, f"{flags}: {result.stderr}")
        check(all(word in result.stderr for word in words), f"{flags}: {result.stderr}")
        check(not (folder / "train").exists(), f"{flags}: left an executable")


def devices(folder):
    """A GPU of the table; the drawing is a picture; this machine is measured once."""
    model, dims = gpt2()
    text = run(["scrimp-plan", model, "--quiet", *dims, "--device", "h100", "--pareto", folder / "p.svg"]).stdout
    check(text.count(" MiB ") > 5, text)
    circles = xml.dom.minidom.parse(str(folder / "p.svg")).getElementsByTagName("circle")
    check(len(circles) > 20, f"{len(circles)} candidates are drawn")
    environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
    command = ["scrimp-plan", model, "--quiet", *dims, "--workers", "1", "--memory-budget", "max"]
    run(command, env=environment)
    (measured_,) = (folder / "cache" / "scrimp").iterdir()
    device = json.loads(measured_.read_text())
    check(device["library_flops_32"] > 1e9 and device["bytes"] > 1e8, f"{device}")
    before = measured_.stat().st_mtime_ns
    run(command, env=environment)
    check(measured_.stat().st_mtime_ns == before, "it was measured again")


if __name__ == "__main__":
    harness.main([monotone, plain_flags, precisions, impossible, sized_parts, over_ranks, measured, limited, profile, bad_input, devices])
