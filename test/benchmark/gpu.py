"""What gpu.sh does: programs for CUDA made here, compared and timed there.

Losses are compared with those of the CPU target on the same data (fp32 1e-5, fp64 1e-10, bf16 3e-2, relative); checkpoints of a second
run and of a resumed one with those of the first, to the byte; the driver's calls, which gpu_calls.c counts, with one launch of a graph
per step and with the planned arena. Times of kernels are the spans of --trace, less that of a launch that does nothing to speak of
(the median check); their bytes are those of the plan's ranges, whole tables included of which a gather reads some rows.
Needs Python 3.8; `prepare` and `dry-run` numpy too."""

import argparse
import array
import ctypes
import datetime
import json
import math
import os
import pathlib
import platform
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from gpu_tables import tables

HERE = pathlib.Path(__file__).resolve().parent
MIB = float(1 << 20)
BOUNDS = {"fp32": 1e-5, "fp64": 1e-10, "bf16": 3e-2}
ALL_SECONDS = 465  # of `run`, in which every part has a limit too
CONFORMANCE = [
    *((model, precision) for model in ("mlp", "lenet", "gpt2", "llama", "bert", "vit", "dropout", "resnet18") for precision in ("fp32", "bf16")),
    *((model, "fp64") for model in ("mlp", "lenet", "gpt2", "llama", "resnet18")),
]  # fmt: skip
STEPS, SAVED = 4, 2  # of a conformance run, and the step that is resumed from
# A batch normalization of few samples: its trajectory is chaotic (test/models/README.md), in fp64 too late to be seen.
COMPARED = {("resnet18", "fp32"): 1, ("resnet18", "bf16"): 2}


class Skip(Exception):
    """A part that does not apply here; the text says why."""


# --- Here: what is carried -------------------------------------------------------------------------------------------


def execute(arguments, **options):
    options = {"stderr": subprocess.PIPE, **options}
    done = subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE, universal_newlines=True, **options)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr or ''}")
    return done.stdout


def large_models(toy):
    sys.path.append(str(HERE.parent / "models"))
    try:
        import large
    except ImportError as error:
        sys.exit(f"{error}: set PYTHON to a Python that has it")
    if toy:
        return [("gpt2", 2, 16, 160, large.gpt(2, "batch", 16, 32, 4, 160)),
                ("llama", 2, 16, 160, large.llama(2, "batch", 16, 32, 4, 2, 64, 160))]  # fmt: skip
    return [("gpt2-124M", 16, 1024, 50257, large.MODELS["124M"](None)), ("llama-350M", 16, 1024, 32000, large.MODELS["350M"](None))]


def read_losses(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def commands_of(text):
    """The commands of a step in their order: what, kernel, bytes that it touches, FLOPs of a product and its m, n, k."""
    graph = text[text.index("scrimp.cmd.graph @train") :]
    end = graph.find("scrimp.cmd.graph @", 1)
    commands = []
    for line in graph[: end if end > 0 else None].splitlines():
        found = re.match(r"\s+scrimp\.cmd\.(launch|call|copy|check_finite|repeat|conditional)\b(.*)", line)
        if not found:
            continue
        kind, rest = found.groups()
        moved = sum(int(n) for n in re.findall(r"\[?\d+ : (\d+)[\],]", rest))
        entry = {"kind": {"launch": "kernel", "check_finite": "check"}.get(kind, kind), "bytes": moved}
        if kind == "repeat":
            return []  # of micro-batches; none here
        if kind == "launch":
            entry["kernel"] = re.match(r" @(\w+)", rest).group(1)
        if kind == "call":
            function, ints = re.match(r' "(\w+)" : \w+ ints \[([^\]]*)\]', rest).groups()
            ints = [int(n) for n in ints.split(",")]
            count, (m, n, k) = (ints[0], ints[1:4]) if function == "gemm" else (1, ints[:3])
            types = re.search(r"types = \[([^\]]*)\]", rest)
            entry.update(kind=function, flops=2 * count * m * n * k, product=[count, m, n, k], types=types.group(1) if types else "")
        commands.append(entry)
    return commands


def fake_kernels(tools, fakes, work, model, flags, output):
    """The kernels of an emulated device as a library for the stand-in for the driver."""
    flags = ["--quiet", *flags, "--target", "emulated"]
    execute([tools / "scrimp-compile", model, "--emit", "llvm", "-o", work / "kernels.ll", *flags])
    execute([tools / "scrimp-compile", model, "--emit", "commands", "-o", work / "emulated.mlir", *flags])
    counts = re.findall(r"scrimp\.cmd\.kernel @(\w+) (\d+)", (work / "emulated.mlir").read_text())
    (work / "counts.c").write_text("".join(f"const long long {name}_buffers = {n};\n" for name, n in counts))
    execute(["llc", "-O1", "-relocation-model=pic", "-filetype=obj", work / "kernels.ll", "-o", work / "kernels.o"])
    execute(["cc", "-shared", "-fPIC", work / "counts.c", work / "kernels.o", "-o", output, f"-L{fakes}", "-l:libcuda.so.1", "-lm"])


def prepare(folder, build, toy=False):
    """FOLDER/manifest.json says what there is; programs.tar.xz holds the executables."""
    sys.path.append(str(HERE.parent / "EndToEnd"))
    tools, fakes, models = build / "bin", build / "test" / "FakeCuda", HERE.parent / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("gpu.sh", "gpu.py", "gpu_tables.py"):
        shutil.copy(HERE / file, folder / file)
    execute(["cc", "-O2", "-shared", "-fPIC", HERE / "gpu_calls.c", "-o", folder / "gpu_calls.so"])
    large = large_models(toy)
    import harness

    programs = []

    def add(work, name, model, flags, **more):
        target = ["--target", "cuda", *flags]
        execute([tools / "scrimp-compile", model, "--quiet", "-o", work / name, *target])
        execute([tools / "scrimp-compile", model, "--quiet", "--emit", "commands", "-o", work / "commands.mlir", *target])
        text = (work / "commands.mlir").read_text()
        more["arena_bytes"] = int(re.search(r"arena_bytes = (\d+)", text).group(1))
        if "tokens" in more:
            more["commands"] = commands_of(text)
            told = execute([tools / "scrimp-plan", model, *target], stderr=subprocess.DEVNULL)
            more["planned_all_mib"] = float(re.search(r"^process +([\d.]+) MiB", told, re.M).group(1))
        if toy:
            fake_kernels(tools, fakes, work, model, flags, folder / f"{name}.so")
        print(f"{name}: {(work / name).stat().st_size} bytes, arena {more['arena_bytes'] / MIB:.1f} MiB", flush=True)
        programs.append({"name": name, **more})

    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        for model, precision in [("lenet", "fp32"), ("gpt2", "bf16")] if toy else CONFORMANCE:
            place, name = models / model, f"{model}-{precision}"
            file = place / ("export.f64.onnx" if precision == "fp64" else "export.onnx")
            flags = ["--dim", f"batch={2 if toy else 4}", "--precision", precision]
            if toy:  # updates that wait for the norm are launched at once on any device, also on that which lends its kernels
                flags.append("--clip-grad-norm")
            data = {}
            for key, npy in harness.INPUTS[model].items():
                shutil.copy(place / npy, folder / f"{model}-{npy}")
                data[key] = f"{model}-{npy}"
            execute([tools / "scrimp-compile", file, "--quiet", "-o", work / "cpu", *flags])
            given = [text for key, npy in data.items() for text in ("--data", f"{key}={folder / npy}")]
            if (work / "metrics").exists():
                (work / "metrics").unlink()
            execute([work / "cpu", *given, "--no-shuffle", "--lr", "1e-3", "--steps", STEPS, "--metrics", work / "metrics"])
            losses = [line["loss"] for line in read_losses(work / "metrics")]
            add(work, name, file, flags, data=data, precision=precision, losses=losses, compared=COMPARED.get((model, precision), STEPS))
        for name, batch, length, vocabulary, graph in large:
            (work / "model.onnx").write_bytes(graph)
            flags = ["--data", "ids", "--data", "labels", "--dim", f"batch={batch}", "--precision", "bf16"]
            add(work, name, work / "model.onnx", flags, tokens=batch * length, batch=batch, length=length, vocabulary=vocabulary)
        with tarfile.open(folder / "programs.tar.xz", "w:xz", preset=1 if toy else 6) as archive:
            for program in programs:
                archive.add(work / program["name"], program["name"])
    source = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    manifest = {"source": source.stdout.decode().strip(), "toy": toy, "fakes": str(fakes) if toy else "", "programs": programs}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    carried = sum(f.stat().st_size for f in folder.iterdir() if f.is_file())
    print(f"{folder}: {len(programs)} programs, {carried} bytes in all")


# --- There ------------------------------------------------------------------------------------------------------------


class Memory:
    """The most MiB of a GPU that are in use while this is open, beside what was in use before; None without nvidia-smi."""

    def ask(self):
        try:
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
            return [int(n) for n in subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10).stdout.split()]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return []

    def __enter__(self):
        self.before, self.most, self.over = self.ask(), None, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while self.before and not self.over.wait(0.2):
            used = [after - before for after, before in zip(self.ask(), self.before)]
            self.most = max([self.most or 0, *used])

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Run:
    def __init__(self, folder, results):
        self.folder, self.results = folder, results
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.start = time.monotonic()
        self.found = {"date": datetime.date.today().isoformat(), "source": self.manifest["source"], "parts": {}}
        self.failures = []
        self.slack = 10 if self.manifest["fakes"] else 1  # for machines that do other things too
        results.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="scrimp-gpu-"))

    def left(self):
        return self.slack * ALL_SECONDS - (time.monotonic() - self.start)

    def program(self, name):
        return next(p for p in self.manifest["programs"] if p["name"] == name)

    def train(self, program, label, flags, limit, counted=False):
        """A run: its steps, summary, calls of the driver. One that is over its limit is asked to end after a step."""
        name = program["name"]
        environment = dict(os.environ)
        if self.manifest["fakes"]:
            environment.update(LD_LIBRARY_PATH=self.manifest["fakes"], SCRIMP_FAKE_KERNELS=str(self.folder / f"{name}.so"))
        calls = self.work / f"{name}-{label}.calls"
        if counted:
            environment.update(LD_PRELOAD=str((self.folder / "gpu_calls.so").resolve()), SCRIMP_CALLS=str(calls))
        metrics = self.work / f"{name}-{label}.jsonl"
        command = [str(self.work / "programs" / name), *map(str, flags), "--no-shuffle", "--metrics", str(metrics)]
        limit = min(self.slack * limit, self.left())
        if limit < 5:
            raise Skip("no time was left")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=environment)
        ended = ""
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            ended = f"ended after {limit:.0f} s"
            process.send_signal(signal.SIGTERM)
            try:
                out, err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        if process.returncode and not ended:
            raise RuntimeError(f"status {process.returncode}: {(err.strip() or out.strip())[-400:]}")
        steps = read_losses(metrics) if metrics.exists() else []
        counts = json.loads(calls.read_text()) if calls.exists() else None
        return {"steps": steps, "summary": out.strip().splitlines()[0] if out.strip() else "", "calls": counts, "ended": ended}

    def part(self, name, body, *arguments):
        """What it found, or why not; the next goes on."""
        begin = time.monotonic()
        try:
            if self.left() < 5:
                raise Skip("no time was left")
            found = body(*arguments)
        except Skip as skip:
            found = {"skipped": str(skip)}
        except Exception as error:  # whatever it is, other parts may work
            found = {"failed": f"{type(error).__name__}: {error}"}
            self.failures.append(f"{name}: {found['failed']}")
        found["part_seconds"] = round(time.monotonic() - begin, 1)
        self.found["parts"][name] = found
        (self.results / "gpu.json").write_text(json.dumps(self.found, indent=1))
        return found

    def bar(self, holds, text):
        if not holds:
            self.failures.append(text)
        return bool(holds)

    # --- Parts

    def machine(self):
        if self.manifest["fakes"]:
            return {"card": "stand-ins for NVIDIA's libraries", "driver": ""}
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
        try:
            lines = subprocess.run(query, stdout=subprocess.PIPE, timeout=20, check=True).stdout.decode().splitlines()
        except (OSError, subprocess.SubprocessError) as error:
            raise Skip(f"no nvidia-smi: {error}")
        name, driver, *rest = [field.strip() for field in lines[0].split(",")]
        return {"card": name, "driver": driver, "more": rest, "host": platform.platform()}

    def unpack(self):
        with tarfile.open(self.folder / "programs.tar.xz") as archive:
            archive.extractall(self.work / "programs")
        return {"bytes": sum(f.stat().st_size for f in (self.work / "programs").iterdir())}

    def same_checkpoints(self, a, b):
        pair = [self.work / folder / (self.work / folder / "latest").read_text().strip() for folder in (a, b)]
        return all((pair[0] / f).read_bytes() == (pair[1] / f).read_bytes() for f in ("model.safetensors", "optimizer.safetensors"))

    def conformance(self, program):
        name = program["name"]
        flags = [text for key, file in program["data"].items() for text in ("--data", f"{key}={self.folder / file}")]
        flags += ["--lr", "1e-3", "--steps", STEPS]
        saves = {label: f"{name}-{label}.save" for label in ("first", "again", "resumed")}
        first = self.train(program, "first", [*flags, "--save", self.work / saves["first"], "--save-every", SAVED], 30, counted=True)
        self.train(program, "again", [*flags, "--save", self.work / saves["again"]], 30)
        resume = self.work / saves["first"] / f"step-{SAVED:06d}"
        self.train(program, "resumed", [*flags, "--resume", resume, "--save", self.work / saves["resumed"]], 30)
        losses = [step["loss"] for step in first["steps"]]
        pairs = list(zip(losses, program["losses"]))[: program["compared"]]
        worst = max(abs(a - b) / abs(b) if math.isfinite(a) else math.inf for a, b in pairs)
        found = {"losses": losses, "expected": program["losses"], "compared": program["compared"], "apart": worst,
                 "bound": BOUNDS[program["precision"]], "calls": first["calls"]}  # fmt: skip
        found["close"] = self.bar(worst <= found["bound"] and len(losses) == STEPS, f"{name}: losses {losses}, {program['losses']} on a CPU")
        for label in ("again", "resumed"):
            same = self.same_checkpoints(saves["first"], saves[label])
            found[label] = self.bar(same, f"{name}: the checkpoint of the run {label} has other bytes")
        calls = first["calls"]
        if calls:
            once = calls["replays"] == STEPS - 1 and calls["records"] <= 2 and not calls["launches_beside"]
            found["one_launch"] = self.bar(once, f"{name}: {STEPS} steps made {calls}")
            found["arena"] = self.bar(calls["largest_bytes"] == program["arena_bytes"], f"{name}: planned {program['arena_bytes']}, {calls}")
        return found

    def data_of(self, program):
        """Random tokens, the same for every machine and for PyTorch."""
        path = self.work / f"{program['name']}.bin"
        if not path.exists():
            count = 8 * program["batch"] * (program["length"] + 1)
            tokens = array.array("H", random.Random(0).choices(range(program["vocabulary"]), k=count))
            if sys.byteorder == "big":
                tokens.byteswap()
            path.write_bytes(tokens.tobytes())
        return path

    def speed(self, program, steps, limit):
        name = program["name"]
        flags = ["--data", f"ids,labels={self.data_of(program)}", "--lr", "1e-4"]
        with Memory() as memory:
            counted = self.train(program, "counted", [*flags, "--steps", 3], limit / 3, counted=True)
        run = self.train(program, "timed", [*flags, "--steps", steps], limit)
        seconds = [step["seconds"] for step in run["steps"]]
        losses = [step["loss"] for step in run["steps"]]
        found = {"losses": losses, "summary": run["summary"], "ended": run["ended"], "calls": counted["calls"], "planned_mib": program["arena_bytes"] / MIB}
        self.bar(losses and all(map(math.isfinite, losses)), f"{name}: losses {losses}")
        # The first is not recorded, the next two record; the last is judged without another behind it.
        measured = seconds[3:] or seconds[-1:]
        if measured:
            found.update(step_seconds=statistics.mean(measured), step_range=[min(measured), max(measured)], steps=len(measured))
            found["tokens_per_second"] = program["tokens"] / found["step_seconds"]
        if counted["calls"]:
            found["arena_mib"] = counted["calls"]["largest_bytes"] / MIB
            self.bar(counted["calls"]["largest_bytes"] == program["arena_bytes"], f"{name}: planned {program['arena_bytes']}, {counted['calls']}")
        stated = re.search(r": ([\d.]+) MiB, of which ([\d.]+) for context", counted["summary"])
        if stated:
            found["stated_mib"], found["beside_mib"] = map(float, stated.groups())
        if memory.most is not None:
            found["peak_mib"] = memory.most
            if stated:
                near = abs(memory.most - found["stated_mib"]) <= 0.01 * found["stated_mib"] + 64
                self.bar(near, f"{name}: {memory.most} MiB at the peak, {found['stated_mib']} stated")
        return found

    def kernels(self, program, limit):
        """Milliseconds of each kernel and product of the plan, from two traced steps, beside bytes and FLOPs."""
        path = self.work / "trace.json"
        flags = ["--data", f"ids,labels={self.data_of(program)}", "--trace", path, "--trace-steps", "2-3", "--steps", 3]
        self.train(program, "traced", flags, limit)
        spans = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
        commands = program["commands"]
        spans = sorted((s for s in spans if s["cat"] in {c["kind"] for c in commands}), key=lambda s: s["ts"])
        if not commands or len(spans) % len(commands) or any(s["cat"] != c["kind"] for s, c in zip(spans, commands)):
            raise RuntimeError(f"{len(spans)} spans of two steps are not those of {len(commands)} commands")
        nothing = statistics.median([s["dur"] for s in spans if s["cat"] == "check"] or [0.0])
        rows, steps = {}, len(spans) // len(commands)
        for i, span in enumerate(spans):
            command = commands[i % len(commands)]
            key = command.get("kernel") or f"{command['kind']} {'x'.join(map(str, command.get('product', [])))} {command.get('types', '')}".strip()
            row = rows.setdefault(key, {"what": key, "where": span["name"], "runs": 0, "us": 0.0, "bytes": 0, "flops": 0, **({"product": command["product"]} if "product" in command else {})})
            row["runs"] += 1
            row["us"] += max(span["dur"] - nothing, 0.0) / steps
            row["bytes"] += command["bytes"] / steps
            row["flops"] += command.get("flops", 0) / steps
        for row in rows.values():
            row["runs"] //= steps
            if row["us"]:
                row["gb_per_second"], row["tflop_per_second"] = row["bytes"] / row["us"] / 1e3, row["flops"] / row["us"] / 1e6
        return {"overhead_us": nothing, "rows": sorted(rows.values(), key=lambda r: -r["us"])}

    def copy(self):
        """GB/s of a copy on the device, read and written."""
        if self.manifest["fakes"]:
            raise Skip("needs a GPU")
        try:
            cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Skip(str(error))

        def check(code):
            if code:
                raise RuntimeError(f"the driver says {code}")

        context, size, rounds = ctypes.c_void_p(), 1 << 30, 20
        check(cuda.cuInit(0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(cuda.cuCtxSetCurrent(context))
        buffers = [ctypes.c_uint64() for _ in range(2)]
        for buffer in buffers:
            check(cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(size)))
            check(cuda.cuMemsetD8_v2(buffer, ctypes.c_ubyte(1), ctypes.c_size_t(size)))
        best = math.inf
        for _ in range(4):
            check(cuda.cuCtxSynchronize())
            begin = time.perf_counter()
            for _ in range(rounds):
                check(cuda.cuMemcpyDtoDAsync_v2(buffers[0], buffers[1], ctypes.c_size_t(size), None))
            check(cuda.cuCtxSynchronize())
            best = min(best, (time.perf_counter() - begin) / rounds)
        for buffer in buffers:
            check(cuda.cuMemFree_v2(buffer))
        check(cuda.cuDevicePrimaryCtxRelease_v2(0))
        return {"gb_per_second": 2 * size / best / 1e9}

    def torch(self, program, products, limit):
        """The same model under torch.compile, and the products alone."""
        python = os.environ.get("SCRIMP_TORCH_PYTHON", sys.executable)
        has = "import torch, sys; sys.exit(not torch.cuda.is_available())"
        try:
            missing = subprocess.run([python, "-c", has], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Skip(str(error))
        if missing:
            raise Skip(f"{python} has no PyTorch with CUDA")
        limit = min(limit, self.left())
        request = {"tokens": str(self.data_of(program)), "products": products, **{k: program[k] for k in ("batch", "length", "vocabulary")}}
        with Memory() as memory:
            done = subprocess.run([python, str(self.folder / "gpu.py"), "torch", json.dumps(request)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True, timeout=limit)  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(done.stderr.strip()[-400:])
        found = json.loads(lines[-1])
        found["peak_mib"] = memory.most
        found["tokens_per_second"] = program["tokens"] / found["step_seconds"] if "step_seconds" in found else None
        return found

    # --- All

    def all(self):
        machine = self.part("machine", self.machine)
        self.part("unpack", self.unpack)
        conformance_end = time.monotonic() + 150 * self.slack
        programs = self.manifest["programs"]
        for program in programs:
            if "tokens" in program:
                continue
            if time.monotonic() > conformance_end:
                self.part(program["name"], lambda: (_ for _ in ()).throw(Skip("no time was left of 150 s")))
            else:
                self.part(program["name"], self.conformance, program)
        gpt, *others = [p for p in programs if "tokens" in p]
        steps = 6 if self.manifest["toy"] else 20
        self.part(f"{gpt['name']} speed", self.speed, gpt, steps, 60)
        kernels = self.part(f"{gpt['name']} kernels", self.kernels, gpt, 45)
        self.part("copy", self.copy)
        for other in others:
            self.part(f"{other['name']} speed", self.speed, other, steps, 50)
        products = [row["product"] for row in kernels.get("rows", []) if "product" in row][:5]
        self.part(f"{gpt['name']} torch", self.torch, gpt, products, 120)
        self.found["failures"] = self.failures
        self.found["seconds"] = round(time.monotonic() - self.start, 1)
        text = tables(self.found, self.manifest, machine)
        (self.results / "gpu.json").write_text(json.dumps(self.found, indent=1))
        (self.results / "gpu.md").write_text(text)
        print(text)
        for failure in self.failures:
            print(f"MISSED {failure}")
        shutil.rmtree(self.work, ignore_errors=True)
        return 1 if self.failures else 0


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def torch_main(request):
    """GPT-2 as large.py writes it, in bf16 autocast with fused AdamW under torch.compile. `layers` to `device`: for a try without a GPU."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    batch, length, vocabulary = (request[k] for k in ("batch", "length", "vocabulary"))
    width, layers, heads = (request.get(k, v) for k, v in (("width", 768), ("layers", 12), ("heads", 12)))
    device = request.get("device", "cuda")

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            parts = [p.view(batch, length, heads, -1).transpose(1, 2) for p in self.c_attn(self.ln_1(x)).split(width, dim=2)]
            y = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(batch, length, width)
            x = x + self.c_proj(y)
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.h, self.ln_f = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
            nn.init.normal_(self.wte.weight, std=0.02)

        def forward(self, ids, labels):
            x = self.wte(ids) + self.wpe.weight
            for block in self.h:
                x = block(x)
            return F.cross_entropy(F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1), labels.flatten())

    torch.manual_seed(0)
    tokens = array.array("H")
    tokens.frombytes(pathlib.Path(request["tokens"]).read_bytes())
    rows = torch.tensor(tokens.tolist()).view(-1, length + 1)
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(model) if device == "cuda" else model
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    seconds, losses = [], []
    for step in range(request.get("steps", 20)):
        first = step * batch % (len(rows) - batch + 1)
        wait()
        begin = time.perf_counter()
        part = rows[first : first + batch].to(device)
        with torch.autocast(device, torch.bfloat16):
            loss = compiled(part[:, :-1].contiguous(), part[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    result = {"version": torch.__version__, "step_seconds": statistics.mean(seconds[5:] or seconds), "losses": losses,
              "first_seconds": seconds[0], "products": []}  # fmt: skip
    result["allocated_mib"] = torch.cuda.max_memory_allocated() / MIB if device == "cuda" else None
    for product in request["products"] if device == "cuda" else []:
        count, m, n, k = product
        a, b = (torch.randn(count, *shape, device=device, dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        for _ in range(3):
            torch.bmm(a, b)
        events[0].record()
        for _ in range(20):
            torch.bmm(a, b)
        events[1].record()
        torch.cuda.synchronize()
        result["products"].append({"product": product, "tflop_per_second": 2 * count * m * n * k * 20 / events[0].elapsed_time(events[1]) / 1e9})
    print(json.dumps(result))


def main():
    if sys.argv[1:2] == ["torch"]:
        return torch_main(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "dry-run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path, nargs="?", metavar="BUILD|RESULTS")
    options = parser.parse_args()
    build = (options.other or HERE.parent.parent / "build").resolve()
    if options.what == "prepare":
        return prepare(options.folder, build)
    if options.what == "dry-run":
        shutil.rmtree(options.folder, ignore_errors=True)
        prepare(options.folder, build, toy=True)
        return Run(options.folder.resolve(), options.folder / "results").all()
    return Run(options.folder.resolve(), options.other or options.folder / "results").all()


if __name__ == "__main__":
    sys.exit(main())
