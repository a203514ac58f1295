"""Executables for NVIDIA's GPUs where there is none: on stand-ins for the driver and its libraries (test/FakeCuda), which run
the kernels of the same graph thread by thread, they learn what those of an emulated device learn; and each trouble of the
machine is told in a line.

    python cuda.py FOLDER FAKES [NAME ...]"""

import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import numpy as np

import harness
from harness import INPUTS, MODELS, check, compile_model, run, same_checkpoints, train

FAKES = pathlib.Path(sys.argv.pop(2))
# As the compiler looks for it.
TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
HAS_PTXAS = bool(shutil.which("ptxas") or shutil.which("ptxas", path=f"{TOOLKIT}/bin:/usr/local/cuda/bin"))


def data_of(model):
    return [*harness.data_flags(MODELS / model, INPUTS[model]), "--no-shuffle", "--lr", "1e-3"]


def kernels_of(folder, model, *flags):
    """The kernels of an emulated device as a library that the stand-in for the driver loads."""
    flags = ("--quiet", "--target", "emulated", *flags)
    run(["scrimp-compile", model, "--emit", "llvm", "-o", folder / "kernels.ll", *flags])
    run(["scrimp-compile", model, "--emit", "commands", "-o", folder / "commands.mlir", *flags])
    counts = re.findall(r"scrimp\.cmd\.kernel @(\w+) (\d+)", (folder / "commands.mlir").read_text())
    check(counts, "the commands name no kernel")
    (folder / "counts.c").write_text("".join(f"const long long {name}_buffers = {n};\n" for name, n in counts))
    run(["llc", "-O1", "-relocation-model=pic", "-filetype=obj", folder / "kernels.ll", "-o", folder / "kernels.o"])
    run(["cc", "-shared", "-fPIC", folder / "counts.c", folder / "kernels.o", "-o", folder / "kernels.so",
         f"-L{FAKES}", "-l:libcuda.so.1", "-lm"])  # fmt: skip
    return folder / "kernels.so"


def machine(kernels, **settings):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(FAKES), SCRIMP_FAKE_KERNELS=str(kernels), TMPDIR="/tmp")
    environment.update({f"SCRIMP_FAKE_{name}": str(value) for name, value in settings.items()})
    return {"env": environment}


def compare(folder, model, steps, *flags, run_flags=()):
    """Weights and losses of both targets. A product's sums are rounded otherwise, so they are not the same bits."""
    file = "export.f64.onnx" if "fp64" in flags and (MODELS / model / "export.f64.onnx").exists() else "export.onnx"
    flags = ("--dim", "batch=2", *flags)
    kernels = kernels_of(folder, MODELS / model / file, *flags)
    compile_model(MODELS / model / file, folder / "cuda", "--target", "cuda", *flags)
    compile_model(MODELS / model / file, folder / "emulated", "--target", "emulated", *flags)
    learned = {}
    log = folder / "log"
    for target, options in (("cuda", machine(kernels, LOG=log)), ("emulated", {})):
        losses = harness.train_steps(
            folder / target, folder / f"{target}.jsonl", *data_of(model), "--steps", steps, "--save", folder / f"{target}.save",
            *run_flags, **options,
        )  # fmt: skip
        learned[target] = ([m["loss"] for m in losses], harness.weights(folder / f"{target}.save"))
    bound = {"fp64": 1e-10, "bf16": 3e-2}.get(next((f for f in flags if f in ("fp64", "bf16")), ""), 1e-5)
    worst = max(abs(a - b) / abs(b) for a, b in zip(learned["cuda"][0], learned["emulated"][0]))
    check(worst <= bound, f"losses {learned['cuda'][0]}, {learned['emulated'][0]} emulated: {worst:.2g} apart")
    return log.read_text().splitlines(), kernels


def models(folder):
    """Each kind of call of the library, in each precision; from the second step on a step is one launch of a graph."""
    # Functions of f64 are libdevice's, which comes with the toolkit.
    toolkit = TOOLKIT / "nvvm/libdevice"
    for model, flags in (("gpt2", ("--precision", "bf16")), ("mlp", ("--precision", "fp64")), ("llama", ("--micro-batches", "2")),
                         ("lenet", ("--clip-grad-norm",))):  # fmt: skip
        if "fp64" in flags and not toolkit.exists():
            print(f"skipped {model} in fp64: there is no {toolkit}")
            continue
        place = folder / model
        place.mkdir()
        log, kernels = compare(place, model, "3", *flags)
        graphs = [line for line in log if line.startswith("graph")]
        check(len(graphs) == 2 and log[-1] == graphs[-1], f"{model}: {len(graphs)} graphs, {log[-3:]}")
        check(not any(line.startswith("launch") for line in log[log.index(graphs[0]) :]), f"{model}: {log}")
        check(log[0] == f"module {'cubin' if HAS_PTXAS else 'ptx'}", f"{log[0]}")
    again = train(folder / "lenet" / "cuda", *data_of("lenet"), "--steps", "3", "--save", folder / "again", **machine(kernels))
    same_checkpoints(folder / "lenet" / "cuda.save", folder / "again", "a second run")
    check("Fake GPU 0: " in again.stdout, again.stdout)
    train(folder / "lenet" / "cuda", *data_of("lenet"), "--steps", "3", "--save", folder / "checked", "--check-launches",
          **machine(kernels, LOG=folder / "checked.log"))  # fmt: skip
    same_checkpoints(folder / "again", folder / "checked", "with --check-launches")
    check("graph" not in (folder / "checked.log").read_text(), "a graph with --check-launches")


def ranges(folder):
    """What --trace shows, a profiler that listens to NVTX is told too; without one, and with one that does not start, nothing
    changes."""
    model, flags = MODELS / "mlp" / "export.onnx", ("--dim", "batch=2", "--clip-grad-norm")
    options = machine(kernels_of(folder, model, *flags))
    compile_model(model, folder / "cuda", "--target", "cuda", *flags)

    def learn(name, **settings):
        environment = dict(options["env"], **{key: str(value) for key, value in settings.items()})
        done = train(folder / "cuda", *data_of("mlp"), "--steps", "4", "--save", folder / f"{name}.save", "--trace",
                     folder / f"{name}.json", "--trace-steps", "2-3", env=environment)  # fmt: skip
        return done.stderr, [e["name"] for e in json.loads((folder / f"{name}.json").read_text())["traceEvents"]
                             if e["ph"] == "X" and e["tid"] == 0]  # fmt: skip

    library = FAKES / "libnvtx_listener.so"
    _, spans = learn("listened", NVTX_INJECTION64_PATH=library, SCRIMP_FAKE_NVTX=folder / "ranges")
    lines, depth, begun = (folder / "ranges").read_text().splitlines(), 0, []
    for line in lines:
        depth += 1 if line.startswith("push ") else -1
        check(0 <= depth < 4, f"ranges do not nest: {lines}")
        begun += [line[5:]] if line.startswith("push ") else []
    check(depth == 0, f"ranges have no end: {lines}")
    # What is known to be a step when it has begun was the end of the steps until then.
    known = [sorted(name for name in names if name != "end") for names in (begun, spans)]
    check(known[0] == known[1], f"ranges {begun}, the trace has {spans}")
    check({"step 2", "step 3"} <= set(begun) and any("node_linear" in name for name in begun), f"ranges {begun}")
    errors, _ = learn("alone")
    check("NVTX" not in errors, errors)
    for path, settings, what in ((folder / "none.so", {}, "which cannot be loaded"), (library, {}, "which did not start"),
                                 (FAKES / "libcuda.so.1", {}, "which has no InitializeInjectionNvtx2")):  # fmt: skip
        errors, _ = learn("warned", NVTX_INJECTION64_PATH=path, **settings)
        check(f"warning: NVTX_INJECTION64_PATH is '{path}', {what}" in errors, errors)
        same_checkpoints(folder / "listened.save", folder / "warned.save", f"a run with {path}")
        shutil.rmtree(folder / "warned.save")


def ranks(folder):
    """Ranks over NCCL: what they add up has the bits of ranks over MPI (here the products differ, in the last bits), and all
    hold the same weights; sends are as planned; two on one GPU are refused."""
    launcher = next((l for l in ("/usr/bin/mpirun.mpich", "/usr/bin/mpirun.openmpi") if os.path.exists(l)), None)
    if not launcher:
        return "skipped: there is no mpirun"
    openmpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}  # fmt: skip
    model = MODELS / "gpt2" / "export.onnx"
    for name, flags, bound in (
        ("plain", ("--zero", "0", "--clip-grad-norm"), 1e-5),
        ("sharded", ("--zero", "3", "--micro-batches", "2", "--remat", "full"), 1e-5),
        ("narrow", ("--zero", "2", "--precision", "bf16", "--reduce-dtype", "bf16"), 3e-2),
    ):
        place = folder / name
        place.mkdir()
        flags = ("--dim", "batch=4", "--world", "2", *flags)
        kernels = kernels_of(place, model, *flags)
        learned = {}
        for target in ("cuda", "emulated"):
            compile_model(model, place / target, "--target", target, "--workers", "1", *flags)
            options = machine(kernels, DEVICES=2, LOG=place / "log")["env"] if target == "cuda" else os.environ
            options = dict(options, TMPDIR=str(place))
            options_of_cuda = options if target == "cuda" else options_of_cuda
            done = subprocess.run(
                [launcher, "-n", "2", "sh", "-c", 'LOCAL_RANK=${PMI_RANK:-$OMPI_COMM_WORLD_RANK} exec "$@"', "sh",
                 place / target, *data_of("gpt2"), "--steps", "3", "--metrics", f"{place}/{target}-{{rank}}.jsonl",
                 "--save", place / f"{target}.save"],
                capture_output=True, text=True, env={**options, **openmpi}, timeout=120,
            )  # fmt: skip
            check(done.returncode == 0, f"{name}: {done.stdout}{done.stderr}")
            learned[target] = [[m for m in harness.read_metrics(place / f"{target}-{r}.jsonl") if "loss" in m] for r in range(2)]
        pairs = zip(learned["cuda"][0], learned["emulated"][0])
        worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in pairs)
        check(worst <= bound, f"{name}: losses {learned}: {worst:.2g} apart")
        for found, expected in zip(learned["cuda"][1], learned["emulated"][1]):
            check(found["loss"] == learned["cuda"][0][found["step"] - 1]["loss"], f"{name}: ranks differ: {learned}")
            sent = [m["sent_elements"] for m in (found, expected)]
            check(sent[0] == sent[1] > 0, f"{name}: {sent} elements sent, over MPI the second")
        check((place / "log").read_text().count("graph") == 4, (place / "log").read_text()[-300:])
        if name != "plain":
            continue
        # Started as torchrun does, without MPI.
        port = str(random.randrange(20000, 50000))
        world = [
            subprocess.Popen(
                [place / "cuda", *data_of("gpt2"), "--steps", "3", "--save", place / "torchrun.save"], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**options_of_cuda, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "MASTER_ADDR": "localhost",
                     "MASTER_PORT": port},
            )
            for r in range(2)
        ]  # fmt: skip
        for each in world:
            text, _ = each.communicate(timeout=120)
            check(each.returncode == 0, text)
        same_checkpoints(place / "cuda.save", place / "torchrun.save", "ranks started by torchrun")
    done = subprocess.run(
        [launcher, "-n", "2", place / "cuda", *data_of("gpt2"), "--steps", "1"], capture_output=True, text=True,
        env={**machine(kernels, DEVICES=2)["env"], **openmpi, "LOCAL_RANK": "1"},
    )  # fmt: skip
    expected = "error: ranks 0 and 1 are on one GPU, a Fake GPU 1; start no more ranks than GPUs, and let LOCAL_RANK tell them apart"
    check(done.returncode != 0 and expected in done.stderr, f"{done.stdout}{done.stderr}")
    check(not list(folder.glob("*/nccl-*")), "ranks did not part in order")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def troubles(folder):
    """Whatever is wrong with the machine is one line, exit status 1, and nothing is left behind."""
    model = MODELS / "mlp" / "export.onnx"
    flags = ("--dim", "batch=8")
    kernels = kernels_of(folder, model, *flags)
    compile_model(model, folder / "train", "--target", "cuda", *flags)

    def expect(text, *more, **settings):
        options = settings.pop("options", None) or machine(kernels, **settings)
        result = train(folder / "train", *data_of("mlp"), "--steps", "3", "--save", folder / "save", *more, ok=False, **options)
        pattern = "train: error: " + re.escape(text).replace(r"\.\.\.", ".*") + "\n"
        check(re.fullmatch(pattern, result.stderr), f"{result.stderr}expected\n{text}")
        check(not (folder / "save").exists(), "a folder is left behind")

    if not has_driver():
        expect(
            "no CUDA device: there is no libcuda.so.1, the driver of NVIDIA's GPUs, on this machine; run where there is one, or "
            "compile with --target cpu",
            options={"env": dict(os.environ, LD_LIBRARY_PATH="/nowhere")},
        )
    expect("no CUDA device: the driver finds none that this process may use (CUDA_VISIBLE_DEVICES, nvidia-smi)", DEVICES=0)
    expect("the driver of this machine is for CUDA 11.8, this program needs 12.0 at least; install a newer driver", VERSION=11080)
    expect("GPU 0 is a Fake GPU 0 of compute capability 7.5; programs need 8.0 at least (A100, RTX 30 and later)", CAPABILITY=75)
    expect("this program plans ... MiB on the device, but of the 0.0 MiB of the Fake GPU 0 ... are free (0.0 before this "
           "process, whose context, kernels and libraries took the rest); end what else uses it, or recompile with "
           "--memory-budget 0MiB", MEMORY=1000)  # fmt: skip
    expect("there is no libcublasLt.so.13 or libcublasLt.so.12, which computes matrix products, in '/nowhere'", "--cuda-libs", "/nowhere")
    os.environ["LOCAL_RANK"] = "2"
    expect("this is rank 2 of this machine, but it may use 1 GPU; two ranks cannot share one: start no more ranks than GPUs")
    del os.environ["LOCAL_RANK"]
    expect("cuBLASLt 13.0.1 ('...') has no algorithm for a product of ... of f32 to f32 within ... bytes of workspace: "
           "CUBLAS_STATUS_NOT_SUPPORTED (in '...')", NO_ALGORITHM=16)  # fmt: skip
    launch = 40
    expect("...: unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED); the device is lost for this process: run again with "
           "--check-launches, which names the op", LAUNCH=launch)  # fmt: skip
    expect("the kernel of '...': unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)", "--check-launches", LAUNCH=launch)
    # A later card takes what was made for the first of its generation, or PTX.
    for capability, image in ((89, "cubin"), (87, "cubin"), (103, "cubin"), (110, "ptx")):
        log = folder / f"{capability}.log"
        train(folder / "train", *data_of("mlp"), "--steps", "1", **machine(kernels, CAPABILITY=capability, LOG=log))
        first = log.read_text().splitlines()[0]
        check(first == f"module {image if HAS_PTXAS else 'ptx'}", f"sm_{capability}: {first}")


def verified(folder):
    """--verify: each kind of product of a model, in every precision, and a library that is wrong in one element."""
    for precision in ("fp32", "bf16"):
        model = MODELS / "gpt2" / "export.onnx"
        flags = ("--dim", "batch=2", "--precision", precision)
        compile_model(model, folder / precision, "--target", "cuda", *flags)
        log = run([folder / precision, "--verify"], **machine(""))
        check(re.search(r"\d+ different library calls, \d+ elements .* agree with plain sums; cuBLASLt 13.0.1", log.stdout), log.stdout)
        sizes = run(["scrimp-compile", model, "--quiet", "--target", "cuda", "--emit", "commands", "-o", "-", *flags]).stdout
        columns = int(re.search(r'call "gemm".*?ints \[\d+, \d+, (\d+)', sizes).group(1))
        wrong = run([folder / precision, "--verify"], ok=False, **machine("", WRONG=columns))
        check(re.match(r"\w+: error: cuBLASLt 13.0.1 \('.*'\) computes wrong on this GPU: element \d+ of buffer", wrong.stderr), wrong.stderr)


def needs(folder):
    """The executable needs libc and libm to start, no vendor's library, and no C++ one."""
    compile_model(MODELS / "mlp" / "export.onnx", folder / "train", "--target", "cuda", "--dim", "batch=8")
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", folder / "train"]).stdout)
    check(set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, f"{needed}")


if __name__ == "__main__":
    harness.main([models, ranges, ranks, troubles, verified, needs])
