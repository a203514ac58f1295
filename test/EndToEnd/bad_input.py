"""Bad files and command lines: every message in full, a status that is not zero, and nothing left behind.

    python bad_input.py FOLDER [NAME ...]

In an expected message FOLDER stands for the test's folder, MODELS for test/models; each is one line after
"scrimp-compile: error: ".
"""

import os
import pathlib
import re
import resource
import subprocess
import time

import numpy as np

import harness
from harness import MODELS, check, run
from onnx_writer import External, model, node, value

MLP = {"x": "x.npy", "labels": "labels.npy"}


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*"))


def tidy(text, folder):
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER").replace(str(MODELS), "MODELS")
    return re.sub(r"\b[0-9a-f]{16}\b", "HASH", re.sub(r"\.part\.\d+", ".part.N", text))


def expect(folder, arguments, *messages, **options):
    """The program fails, stderr is exactly these lines (...: any text), and the folder holds what it held before."""
    before = listing(folder)
    result = run(arguments, ok=False, **options)
    found = tidy(result.stderr, folder).splitlines()
    expected = re.escape("\n".join(messages)).replace(r"\.\.\.", "(?s:.*)")
    check(
        re.fullmatch(expected, "\n".join(found)),
        "stderr is\n  " + "\n  ".join(found) + "\nexpected\n  " + "\n  ".join(messages),
    )
    check(result.returncode in (1, 2) or result.returncode > 100, f"status {result.returncode}: {arguments}")
    check(result.stdout == "", f"stdout is {result.stdout}")
    check(listing(folder) == before, f"left behind: {sorted(set(listing(folder)) - set(before))}")


def refuse(folder, name, contents, *messages, flags=()):
    """scrimp-compile refuses the model file with these contents (None: no file)."""
    file = folder / name
    if contents is not None:
        file.write_bytes(contents)
    expect(
        folder,
        ["scrimp-compile", file, "-o", folder / "train", "--quiet", *flags],
        *("scrimp-compile: error: " + m for m in messages),
    )


X = value("x", "f4", ["batch", 4])
LOSS = value("loss", "f4", [])
W = {"w": np.ones((4, 3), "f4")}
BATCH = ("--dim", "batch=2")


def mean_of(name):
    return node("ReduceMean", [name], ["loss"], keepdims=0)


def linear(*more, initializers=W, inputs=(X,), outputs=(LOSS,), **keywords):
    """x times w, then `more` nodes."""
    return model(
        [node("MatMul", ["x", "w"], ["y"], name="product"), *more],
        list(inputs),
        list(outputs),
        initializers,
        **keywords,
    )


def files(folder):
    """Missing, empty, truncated, directory, another kind of file."""
    refuse(folder, "absent.onnx", None, "'FOLDER/absent.onnx' does not exist")
    refuse(folder, "empty.onnx", b"", "'FOLDER/empty.onnx' is empty; expected an ONNX model")
    whole = (MODELS / "mlp" / "export.onnx").read_bytes()
    refuse(
        folder,
        "half.onnx",
        whole[: len(whole) // 2],
        f"'FOLDER/half.onnx' is not an ONNX model, or is cut off: its {len(whole) // 2} bytes do " f"not parse as one",
    )
    (folder / "folder.onnx").mkdir()
    refuse(
        folder,
        "folder.onnx",
        None,
        "'FOLDER/folder.onnx' is a directory; expected an ONNX model file",
    )
    refuse(
        folder,
        "text.onnx",
        b"this is no model\n" * 20,
        "'FOLDER/text.onnx' is not an ONNX model, or is cut off: its 340 bytes do not parse as one",
    )
    refuse(folder, "absent.mlir", None, "'FOLDER/absent.mlir' does not exist")


def special_files(folder):
    """Pipes and devices are never opened: they may block, or have no end."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    for name in ("pipe.onnx", "pipe.mlir", "pipe.safetensors", "pipe.safetensors.index.json", "pipe.bin"):
        os.mkfifo(folder / name)
    wanted = {"onnx": "an ONNX model file", "mlir": "a model in the scrimp dialect"}
    for name, kind in wanted.items():
        refuse(folder, f"pipe.{name}", None, f"'FOLDER/pipe.{name}' is not a regular file; expected {kind}")
    expect(
        folder,
        ["scrimp-plan", "/dev/zero"],
        "scrimp-plan: error: '/dev/zero' is not a regular file; expected an ONNX model file",
    )
    for tool in ("scrimp-run", "scrimp-kernel-test"):
        expect(folder, [tool, folder / "pipe.mlir"], f"{tool}: error: 'FOLDER/pipe.mlir' is not a regular file")
    for name, kind in (
        ("pipe.safetensors", "a safetensors file"),
        ("pipe.safetensors.index.json", "a model.safetensors.index.json"),
    ):
        refuse(
            folder,
            "good.onnx",
            None,
            f"'FOLDER/{name}' is not a regular file; expected {kind}",
            flags=(*BATCH, "--init-from", folder / name),
        )
    # Beside the model: named by its metadata, or as external data of a tensor.
    refuse(
        folder,
        "beside.onnx",
        linear(mean_of("y"), metadata=[("scrimp.weights", "pipe.safetensors")]),
        "'FOLDER/pipe.safetensors' is not a regular file; expected a safetensors file",
        flags=BATCH,
    )
    refuse(
        folder,
        "external.onnx",
        linear(mean_of("y"), initializers={"w": External("f4", [4, 3], "pipe.bin")}),
        "'FOLDER/external.onnx' initializer 'w' has its data in 'FOLDER/pipe.bin', which is not a regular file",
        flags=BATCH,
    )


def training(folder):
    """Dimensions, losses, nothing to train."""
    refuse(
        folder,
        "empty_batch.onnx",
        linear(mean_of("y"), inputs=[value("x", "f4", [0, 4])]),
        "'x' has batches of 0 samples (dimension 0 of 'tensor<0x4xf32>'), expected at least 1",
    )
    refuse(
        folder,
        "misspelt.onnx",
        linear(mean_of("y")),
        "'FOLDER/misspelt.onnx' has no input 'y', which --data names; its inputs without a value are 'x'",
        flags=(*BATCH, "--data", "y"),
    )
    refuse(
        folder,
        "misspelt.onnx",
        None,
        "'FOLDER/misspelt.onnx' holds the value of 'w', which --data names; its inputs without a value are 'x'",
        flags=(*BATCH, "--data", "w"),
    )
    refuse(
        folder,
        "unbound.onnx",
        linear(mean_of("y")),
        "'FOLDER/unbound.onnx' has an input 'x' whose dimension 0, 'batch', has no size; give "
        "it one with --dim batch=N",
    )
    refuse(
        folder,
        "unbound.onnx",
        None,
        "'FOLDER/unbound.onnx' has no symbolic dimension 'sequence', which --dim names; it has " "'batch'",
        flags=(*BATCH, "--dim", "sequence=4"),
    )
    two = linear(node("Add", ["y", "z"], ["s"]), mean_of("s"), inputs=(X, value("z", "f4", [3, 3])))
    refuse(
        folder,
        "contradicting.onnx",
        two,
        "node 's' (Add): the inputs' shapes do not broadcast together: [2, 3] [3, 3]",
        flags=("--dim", "batch=2", "--data", "x", "--data", "z"),
    )
    refuse(
        folder,
        "vector.onnx",
        linear(node("Relu", ["y"], ["loss"]), outputs=(value("loss", "f4", ["batch", 3]),)),
        "'FOLDER/vector.onnx' has no output that is one number to take as the loss (its outputs "
        "are loss float[batch,3]); pass --loss, for example --loss 'cross_entropy(loss,labels)'",
        flags=BATCH,
    )
    refuse(
        folder,
        "frozen.onnx",
        linear(mean_of("y")),
        "'FOLDER/frozen.onnx' has nothing to train: no parameter is trainable; --trainable "
        "PATTERN makes parameters so, and weights that are graph inputs need --data to tell the data from them",
        flags=(*BATCH, "--frozen", "*"),
    )
    refuse(
        folder,
        "loss.onnx",
        linear(node("Relu", ["y"], ["logits"]), outputs=(value("logits", "f4", ["batch", 3]),)),
        "--loss 'hinge(logits,labels)' is not understood; expected cross_entropy(LOGITS,LABELS[,ignore_index=N]), "
        "mse(PREDICTION,TARGET), bce_with_logits(PREDICTION,TARGET), or the name of an output that is one number",
        flags=(*BATCH, "--loss", "hinge(logits,labels)"),
    )
    refuse(
        folder,
        "loss.onnx",
        None,
        "'FOLDER/loss.onnx' has no value 'nothing', which --loss names; its outputs are logits " "float[batch,3]",
        flags=(*BATCH, "--loss", "mse(nothing,target)"),
    )


def outputs(folder):
    """Where the result cannot go."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    compile_ = ["scrimp-compile", good, "--quiet", *BATCH, "-o"]
    expect(
        folder,
        [*compile_, folder / "absent" / "train"],
        "scrimp-compile: error: cannot write 'FOLDER/absent/train': no folder 'FOLDER/absent'",
    )
    (folder / "taken").mkdir()
    expect(
        folder, [*compile_, folder / "taken"], "scrimp-compile: error: cannot write 'FOLDER/taken': it is a directory"
    )
    # What is no file keeps its place; a pipe stands for the devices.
    os.mkfifo(folder / "pipe")
    expect(
        folder,
        [*compile_, folder / "pipe"],
        "scrimp-compile: error: cannot write 'FOLDER/pipe': it is not a regular file",
    )
    check((folder / "pipe").is_fifo(), "the pipe is gone")
    (folder / "pipe").unlink()
    # Names that a linker or an assembler would read otherwise.
    for name in ["-x", "@x", 'a"b\\c']:
        run(["scrimp-compile", good, "--quiet", *BATCH, "-o", name], cwd=folder)
        check((folder / name).is_file(), f"no executable {name}")
        (folder / name).unlink()
    expect(
        folder,
        [*compile_, "/proc/train"],
        "scrimp-compile: error: cannot write '/proc/train.part.N.o': No such file or directory",
    )
    expect(
        folder,
        ["scrimp-plan", good, *BATCH, "--quiet", "--report", folder / "absent" / "r.json"],
        "scrimp-plan: error: cannot open output file 'FOLDER/absent/r.json': No such file or directory",
    )
    # What is read is not written over.
    for flags in (("-o", good), ("-o", folder / "new", "--report", good), ("-o", good, "--emit", "import")):
        expect(
            folder,
            ["scrimp-compile", good, "--quiet", *BATCH, *flags],
            f"scrimp-compile: error: --{'report' if '--report' in flags else 'output'} 'FOLDER/good.onnx' would "
            "replace 'FOLDER/good.onnx', which the model is read from",
        )
    expect(
        folder,
        [*compile_, folder / "new", "--report", folder / "new"],
        "scrimp-compile: error: --output and --report are both 'FOLDER/new'",
    )
    for flag in ("--report", "--init-from", "--device"):
        expect(folder, [*compile_, folder / "new", flag, ""], f"scrimp-compile: error: {flag}: the name is empty; see --help")
    check(good.read_bytes() == linear(mean_of("y")), "the model was written to")
    # A signal while files of the linker's lie there.
    process = subprocess.Popen([str(a) for a in [*compile_, folder / "train"]])
    while process.poll() is None and not list(folder.glob("*.part.*")):
        time.sleep(0.002)
    process.terminate()
    process.wait()
    check(not list(folder.glob("*.part.*")), f"left behind: {listing(folder)}")
    (folder / "train").unlink(missing_ok=True)
    # A full disk, or the nearest thing that needs no rights: a bound on the size of files.
    expect(
        folder,
        [*compile_, folder / "train"],
        "scrimp-compile: error: linking 'FOLDER/train' failed: ...ile size limit exceeded...",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)),
    )


def flags(folder):
    """Flags that do not exist, or do not fit."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    compile_ = ["scrimp-compile", good, "-o", folder / "train"]
    expect(
        folder,
        [*compile_, "--frobnicate"],
        "scrimp-compile: error: The following argument was not expected: --frobnicate; see --help",
    )
    expect(
        folder,
        [*compile_, "--dim", "batch"],
        "scrimp-compile: error: --dim: expected NAME=SIZE with a positive size, found 'batch'; see --help",
    )
    expect(
        folder,
        [*compile_, "--optimizer", "magic"],
        "scrimp-compile: error: --optimizer: magic not in {adamw,adam,sgd}; see --help",
    )
    for arguments, message in (
        (["--workers", "0"], "--workers: Value 0 not in range 1 to 4096"),
        (["--workers", "5000"], "--workers: Value 5000 not in range 1 to 4096"),
        (["--micro-batches", "0"], "--micro-batches: Value 0 not in range 1 to 1073741824"),
    ):
        expect(folder, [*compile_, *BATCH, *arguments], f"scrimp-compile: error: {message}; see --help")
    for arguments, message in (
        (["--trainable", "["], "--trainable '[': invalid glob pattern, unmatched '['"),
        (["--no-decay", "["], "FOLDER/good.onnx: no-decay pattern '[': invalid glob pattern, unmatched '['"),
        (["--momentum"], "FOLDER/good.onnx: momentum and nesterov belong to sgd, not to adamw"),
        (["--optimizer", "sgd", "--nesterov"], "FOLDER/good.onnx: nesterov needs momentum"),
        (
            ["--dim", "batch=1000000000000"],
            "node 'product' (MatMul): its result 'tensor<1000000000000x3xf32>' is too large",
        ),
        (
            ["--dim", "batch=90000000000"],
            "product: has a dimension of 90000000000, but 'gemm' takes at most 2147483647; try a smaller batch",
        ),
        (["--emit", "ptx", "--chip", "sm_12x"], "unknown GPU 'sm_12x'; expected one such as sm_80 or sm_90a"),
        (
            ["--loss", "mse(y,x)"],
            "--loss: 'y' is 'tensor<2x3xf32>', but 'x' is 'tensor<2x4xf32>'; expected 'tensor<2x3xf32>'",
        ),
    ):
        batch = () if "--dim" in arguments else BATCH
        expect(folder, [*compile_, *batch, "--quiet", *arguments], "scrimp-compile: error: " + message)
    run(["scrimp-compile", good, *BATCH, "--emit", "import", "--quiet", "-o", folder / "good.mlir"])
    for arguments in (
        BATCH,
        ("--loss", "mse(y,t)"),
        ("--data", "x"),
        ("--trainable", "w"),
        ("--frozen", "w"),
        ("--training-mode",),
    ):
        expect(
            folder,
            ["scrimp-plan", folder / "good.mlir", *arguments],
            f"scrimp-plan: error: {arguments[0]} is about ONNX models; 'FOLDER/good.mlir' says so itself",
        )
    expect(
        folder,
        [*compile_, *BATCH, "--dim", "batch=3"],
        "scrimp-compile: error: --dim: 'batch' is given twice; see --help",
    )
    expect(folder, ["scrimp-compile", good], "scrimp-compile: error: --output is required; see --help")
    expect(folder, ["scrimp-plan"], "scrimp-plan: error: MODEL is required; see --help")


if __name__ == "__main__":
    harness.main([files, special_files, training, outputs, flags])
