"""Bad data, checkpoints, first values and flags of executables: every message in full, nothing left behind.

python bad_runs.py FOLDER [NAME ...]
"""

import json
import os
import re
import resource
import shutil
import subprocess

import numpy as np

import harness
from bad_input import BATCH, MLP, expect, linear, listing, mean_of, tidy
from harness import MODELS, check, run, train


def executable(folder, *compile_flags, name="train"):
    harness.compile_model(
        MODELS / "mlp" / "export.onnx", folder / name, "--dim", "batch=8", "--workers", "2", *compile_flags
    )
    return folder / name


def data_files(folder):
    """Data that does not fit the inputs."""
    program = executable(folder)
    x, labels = (np.load(MODELS / "mlp" / name) for name in MLP.values())
    good = {"x": MODELS / "mlp" / "x.npy", "labels": MODELS / "mlp" / "labels.npy"}

    def reject(message, **replaced):
        feeds = {**good, **replaced}
        arguments = [f for n, file in feeds.items() if file for f in ("--data", f"{n}={file}")]
        expect(
            folder,
            [
                program,
                "--steps",
                "5",
                "--no-shuffle",
                "--save",
                folder / "save",
                "--metrics",
                folder / "m.jsonl",
                *arguments,
            ],
            "train: error: " + message,
        )

    def save(name, array):
        np.save(folder / name, array)
        return folder / name

    reject("input 'labels' (i64 [8]) has no data; give --data labels=FILE", labels=None)
    reject("--data y: the model has no such input, its inputs are x, labels", y=good["x"])
    reject("--data x: cannot open 'FOLDER/absent.npy': No such file or directory", x=folder / "absent.npy")
    reject(
        "--data: 'FOLDER/complex.npy' has type '<c8', expected little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 "
        "or b1; convert it with numpy's astype",
        x=save("complex.npy", x.astype("c8")),
    )
    reject(
        "--data: 'FOLDER/float_labels.npy' holds f32, which does not convert to input 'labels' (i64 [8])",
        labels=save("float_labels.npy", labels.astype("f4") + 0.5),
    )
    reject(
        "--data: 'FOLDER/shape.npy' has shape [32, 15], input 'x' (f32 [8, 16]) takes [samples, 16]",
        x=save("shape.npy", x[:, :15]),
    )
    reject(
        "--data: 'MODELS/mlp/labels.npy' holds 32 samples, but 'FOLDER/length.npy' holds 31",
        x=save("length.npy", x[:31]),
    )
    reject("--data: 'FOLDER/none.npy' holds no samples", x=save("none.npy", x[:0]))
    reject(
        "--data: 'FOLDER/fortran.npy' is in Fortran order, expected C order; save numpy.ascontiguousarray of it",
        x=save("fortran.npy", np.asfortranarray(x)),
    )
    (folder / "cut.npy").write_bytes(good["x"].read_bytes()[:-4])
    reject(
        "--data: 'FOLDER/cut.npy' is truncated: [32, 16] elements of f32 need 2048 bytes, found 2044",
        x=folder / "cut.npy",
    )
    (folder / "text.txt").write_text("1 2 3\n")
    reject("--data: 'FOLDER/text.txt' is of no known kind, expected .npy, .safetensors or .bin", x=folder / "text.txt")


def label_range(folder):
    """A label outside the classes is found before the step that would use it."""
    program = executable(folder)
    labels = np.load(MODELS / "mlp" / "labels.npy")
    for number, bad in ((1, 10), (2, -1)):
        wrong = labels.copy()
        wrong[13] = bad
        np.save(folder / "labels.npy", wrong)
        result = train(
            program,
            "--steps",
            "5",
            "--no-shuffle",
            "--metrics",
            folder / "m.jsonl",
            "--data",
            f"x={MODELS}/mlp/x.npy",
            "--data",
            f"labels={folder}/labels.npy",
            ok=False,
        )
        expected = (
            f"train: error: --data: input 'labels', sample 13: value {bad} in '{folder}/labels.npy' is outside 0 to 9 "
            "(or -100, ignored)\n"
        )
        check(result.stderr == expected, f"{result.stderr}expected\n{expected}")
        check(len(harness.read_metrics(folder / "m.jsonl")) == 1, "not found in the second step")


def checkpoints(folder):
    """Of another model, cut off, with a flipped bit: refused, and named."""
    program, other = executable(folder), folder / "other"
    harness.compile_model(MODELS / "dropout" / "export.onnx", other, "--dim", "batch=8")
    data = harness.data_flags(MODELS / "mlp", MLP)
    train(program, "--steps", "2", "--save", folder / "save", *data)
    train(other, "--steps", "2", "--save", folder / "of-other", *data)
    resume = lambda path: [
        program,
        "--steps",
        "4",
        "--metrics",
        folder / "m.jsonl",
        "--save",
        folder / "new",
        "--resume",
        path,
        *data,
    ]
    expect(
        folder,
        resume(folder / "of-other"),
        "train: error: --resume: 'FOLDER/of-other/step-000002/model.safetensors' is of another model: it lacks "
        "tensor '2.bias' (f32 [32])",
    )
    expect(
        folder,
        resume(folder / "absent"),
        "train: error: --resume: 'FOLDER/absent' is no folder, expected a checkpoint or a folder of checkpoints",
    )
    adam = executable(folder, "--optimizer", "adam", name="adam")
    expect(
        folder,
        [adam, "--steps", "4", "--resume", folder / "save", *data],
        "adam: error: --resume: the checkpoint was made with the optimizer adamw, this executable has adam; to start "
        "anew with these weights, give --init-from FOLDER/save/step-000002 instead of --resume",
    )
    (folder / "empty").mkdir()
    expect(
        folder,
        resume(folder / "empty"),
        "train: error: --resume: 'FOLDER/empty' holds no checkpoint: there is neither state.json nor latest",
    )
    (folder / "copied").mkdir()
    shutil.copytree(harness.newest(folder / "save"), folder / "copied" / "step-000002")
    expect(
        folder,
        resume(folder / "copied"),
        "train: error: --resume: 'FOLDER/copied' holds no checkpoint: there is neither state.json nor latest; "
        "'FOLDER/copied/step-000002' is one",
    )
    for name, file in (("weights", "model.safetensors"), ("moments", "optimizer.safetensors"), ("state", "state.json")):
        for damage in ("cut", "flipped"):
            broken = folder / f"{name}-{damage}"
            shutil.copytree(harness.newest(folder / "save"), broken)
            raw = bytearray((broken / file).read_bytes())
            if damage == "cut":
                del raw[-5:]
            elif file == "state.json":
                at = raw.index(b'"step": 2') + 8
                raw[at] ^= 1
            else:
                raw[-5] ^= 16
            (broken / file).write_bytes(raw)
            problem = "damaged"
            if file != "state.json":
                problem = (
                    f"truncated: it has {len(raw)} bytes, expected {len(raw) + 5}"
                    if damage == "cut"
                    else "damaged: its hash is HASH, expected HASH"
                )
            expect(
                folder,
                resume(broken),
                f"train: error: --resume: 'FOLDER/{name}-{damage}/{file}' is {problem}; take another checkpoint",
            )
    shutil.copytree(harness.newest(folder / "save"), folder / "lacks")
    (folder / "lacks" / "optimizer.safetensors").unlink()
    expect(
        folder,
        resume(folder / "lacks"),
        "train: error: --resume: cannot open 'FOLDER/lacks/optimizer.safetensors': No such file or directory",
    )


COUNTER = """
func.func @main(%w: tensor<2xf32> {scrimp.name = "w", scrimp.param = "trainable"},
                %n: tensor<i32> {scrimp.name = "n", scrimp.state})
    -> (tensor<f32> {scrimp.output = "loss"}, tensor<i32> {scrimp.updates = 1 : i64}) {
  %l = scrimp.reduce sum, %w [0] : tensor<2xf32> -> tensor<f32>
  %one = scrimp.constant dense<1> : tensor<i32>
  %m = scrimp.add %n, %one : tensor<i32>
  return %l, %m : tensor<f32>, tensor<i32>
}
"""


def first_values(folder):
    """--init-from, when compiling and when running: values that do not fit, names that say two things."""
    good = folder / "good.onnx"
    good.write_bytes(linear(mean_of("y")))
    harness.compile_model(good, folder / "train", *BATCH)
    np.save(folder / "x.npy", np.ones((2, 4), "f4"))

    def reject(file, compiling, running, model_file=good, program="train", flags=BATCH, data=("x",)):
        compile_ = ["scrimp-compile", model_file, "-o", folder / "new", "--quiet", *flags, "--init-from", file]
        expect(folder, compile_, "scrimp-compile: error: " + compiling)
        feeds = [f for name in data for f in ("--data", f"{name}={folder}/{name}.npy")]
        expect(
            folder,
            [folder / program, "--steps", "1", "--init-from", file, *feeds],
            f"{program}: error: --init-from: {running}",
        )

    large = np.ones((4, 3))
    large[2, 1] = 1e39
    reject(
        harness.write_safetensors(folder / "large.safetensors", [("w", large)]),
        "element 7 of parameter 'w' is 1e+39, which its type in the model, f32, does not hold",
        "tensor 'w' of 'FOLDER/large.safetensors': element 7 is 1e+39, which f32 does not hold",
    )
    # What is infinite already stays so.
    large[2, 1] = np.inf
    infinite = harness.write_safetensors(folder / "infinite.safetensors", [("w", large)])
    harness.compile_model(good, folder / "infinite", *BATCH, "--init-from", infinite)
    (folder / "infinite").unlink()
    w = np.ones((4, 3), "f4")
    twice = "'FOLDER/twice.safetensors' holds 'w' twice; it is damaged, write it again"
    reject(harness.write_safetensors(folder / "twice.safetensors", [("w", w), ("w", 2 * w)]), twice, twice)
    index = folder / "i.safetensors.index.json"
    index.write_text('{"weight_map": {"w": "large.safetensors", "\\u0077": "infinite.safetensors"}}')
    twice = "'FOLDER/i.safetensors.index.json' holds 'w' twice; it is damaged, write it again"
    reject(index, twice, twice)

    counter = folder / "counter.mlir"
    counter.write_text(COUNTER)
    harness.compile_model(counter, folder / "counter")
    pair = lambda n: [("w", np.ones(2, "f4")), ("n", np.array(n))]
    path = harness.write_safetensors(folder / "n.safetensors", pair(np.float32(3)))
    reject(
        path,
        "'n' in 'FOLDER/n.safetensors' holds F32, which does not convert to the model's 'i32'",
        "tensor 'n' is f32 [] in 'FOLDER/n.safetensors', the model takes i32 []",
        *(counter, "counter", (), ()),
    )
    path = harness.write_safetensors(folder / "n.safetensors", pair(1 << 40))
    reject(
        path,
        "element 0 of parameter 'n' is 1.09951e+12, which its type in the model, i32, does not hold",
        "tensor 'n' of 'FOLDER/n.safetensors': element 0 is 1099511627776, which i32 does not hold exactly",
        *(counter, "counter", (), ()),
    )
    path = harness.write_safetensors(folder / "n.safetensors", pair(5))
    harness.compile_model(counter, folder / "five", "--init-from", path)
    for program, flags in (("five", ()), ("counter", ("--init-from", path))):
        train(folder / program, "--steps", "2", "--save", folder / "save", *flags)
        n = harness.weights(folder / "save")["n"]
        check(n.dtype == np.int32 and n == 7, f"{program} counted to {n}")
        shutil.rmtree(folder / "save")

    tied, folder_of_data = MODELS / "cases" / "tied" / "export.onnx", MODELS / "cases" / "tied"
    harness.compile_model(tied, folder / "tied")
    inputs = {name: f"{name}.npy" for name in ("tokens", "labels")}
    for file in inputs.values():
        shutil.copy(folder_of_data / file, folder / file)
    train(folder / "tied", "--steps", "1", "--save", folder / "save", *harness.data_flags(folder, inputs))
    tensors = dict(harness.weights(folder / "save"))
    shutil.rmtree(folder / "save")
    harness.write_safetensors(folder / "same.safetensors", tensors.items())
    train(folder / "tied", "--init-from", folder / "same.safetensors", *harness.data_flags(folder, inputs))
    other = np.array(tensors["head.weight"])
    other[0, 0] += 1
    parted = (
        "'{}' and '{}' are one parameter of the model, but 'FOLDER/parted.safetensors' gives them different values; "
        "leave one of them out".format("head.weight", "embedding.weight")
    )
    reject(
        harness.write_safetensors(folder / "parted.safetensors", {**tensors, "head.weight": other}.items()),
        parted,
        parted,
        tied,
        "tied",
        (),
        inputs,
    )


def saving(folder):
    """A folder that cannot be written, and a disk that fills up while saving: earlier checkpoints stay whole."""
    program = executable(folder)
    data = harness.data_flags(MODELS / "mlp", MLP)
    run_ = lambda where, *more: [program, "--steps", "4", "--save", where, *data, *more]
    (folder / "file").write_text("")
    expect(folder, run_(folder / "file"), "train: error: --save: cannot create 'FOLDER/file': Not a directory")
    expect(folder, run_("/proc/save"), "train: error: --save: cannot create '/proc/save': No such file or directory")
    expect(
        folder,
        run_(folder / "ok", "--metrics", folder / "absent" / "m.jsonl"),
        "train: error: --metrics: cannot write 'FOLDER/absent/m.jsonl': No such file or directory",
    )
    expect(
        folder,
        run_(folder / "ok", "--metrics", "/dev/full"),
        "train: error: --metrics: cannot write '/dev/full': " "No space left on device",
    )
    shutil.rmtree(folder / "ok", ignore_errors=True)
    shutil.copy(MODELS / "mlp" / "x.npy", folder / "x.npy")
    expect(
        folder,
        [program, "--steps", "1", "--data", f"x={folder}/x.npy", "--data", data[-1], "--metrics", folder / "x.npy"],
        "train: error: --metrics: 'FOLDER/x.npy' is a file that this run reads; name another",
    )
    check((folder / "x.npy").read_bytes() == (MODELS / "mlp" / "x.npy").read_bytes(), "the data were written to")
    train(program, "--steps", "2", "--save", folder / "full", *data)
    before = listing(folder / "full")
    size = (harness.newest(folder / "full") / "model.safetensors").stat().st_size
    result = run(
        run_(folder / "full"),
        ok=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2)),
    )
    check(
        tidy(result.stderr, folder) == "train: error: --save: checkpoint of step 4 was not saved: cannot write "
        "'FOLDER/full/.tmp-step-000004/model.safetensors': File too large; earlier checkpoints are intact\n",
        result.stderr,
    )
    check(listing(folder / "full") == before, f"the folder holds {listing(folder / 'full')}")
    train(program, "--steps", "3", "--resume", folder / "full", *data)


def full_disk(folder):
    """The same on a file system that is full; needs to be root to mount one."""
    mounted = folder / "disk"
    mounted.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=240k", "tmpfs", mounted], stderr=subprocess.DEVNULL
        ).returncode
    ):
        return "not tried: cannot mount"
    try:
        program = executable(folder)
        data = harness.data_flags(MODELS / "mlp", MLP)
        train(program, "--steps", "1", "--save", mounted / "save", *data)
        before = listing(mounted)
        result = train(program, "--steps", "30", "--save-every", "1", "--save", mounted / "save", *data, ok=False)
        error = re.sub(r"\d{6}/\w+\.\w+", "N/FILE", re.sub(r"step \d+", "step N", tidy(result.stderr, folder)))
        check(
            error == "train: error: --save: checkpoint of step N was not saved: cannot write "
            "'FOLDER/disk/save/.tmp-step-N/FILE': No space left on device; earlier checkpoints are intact\n",
            result.stderr,
        )
        check("save/step-000001/state.json" in listing(mounted), f"the disk holds {listing(mounted)}, before {before}")
        check(not [p for p in listing(mounted) if ".tmp" in p], f"left behind: {listing(mounted)}")
        train(program, "--steps", "1", "--resume", mounted / "save" / "step-000001", *data)
        shutil.rmtree(mounted / "save")
        model_file = MODELS / "mlp" / "export.onnx"
        compiled = harness.compile_model(model_file, mounted / "train", "--dim", "batch=8", ok=False)
        check(
            re.fullmatch(
                r"scrimp-compile: error: linking 'FOLDER/disk/train' failed: .*: No space left on device; .*\n",
                tidy(compiled.stderr, folder),
            ),
            compiled.stderr,
        )
        check(listing(mounted) == [], f"left behind: {listing(mounted)}")
    finally:
        subprocess.run(["umount", mounted])


def run_time_flags(folder):
    """Unknown flags, values out of range, and what the executable was compiled without."""
    program, sgd = executable(folder), executable(folder, "--optimizer", "sgd", name="sgd")
    data = harness.data_flags(MODELS / "mlp", MLP)
    for arguments, message in (
        (["--frobnicate"], "The following argument was not expected: --frobnicate; see --help"),
        (["--steps", "-1"], "--steps is -1, expected 0 to 281474976710656"),
        (["--lr", "-1"], "--lr is -1, expected a finite number from 0 up"),
        (["--lr", "inf"], "--lr is inf, expected a finite number from 0 up"),
        (["--lr", "nan"], "--lr is nan, expected a finite number from 0 up"),
        (["--lr-min", "inf"], "--lr-min is inf, expected a finite number from 0 up"),
        (["--beta1", "1"], "--beta1 is 1, expected a number from 0 to below 1"),
        (["--beta2", "-0.1"], "--beta2 is -0.1, expected a number from 0 to below 1"),
        (["--beta2", "nan"], "--beta2 is nan, expected a number from 0 to below 1"),
        (["--eps", "-1e-8"], "--eps is -1e-08, expected a finite number from 0 up"),
        (["--weight-decay", "-1"], "--weight-decay is -1, expected a finite number from 0 up"),
        (["--weight-decay", "inf"], "--weight-decay is inf, expected a finite number from 0 up"),
        (["--threads", "0"], "--threads is 0, expected 1 to 2"),
        (
            ["--clip-norm", "1"],
            "--clip-norm: this executable was compiled without clip_norm (its optimizer is adamw); recompile with "
            "--clip-grad-norm",
        ),
        (
            ["--momentum", ".9"],
            "--momentum: this executable was compiled without momentum (its optimizer is adamw); recompile with "
            "--optimizer sgd --momentum",
        ),
        (["--steps", "1", "--epochs", "1"], "--steps and --epochs are both given; give one"),
        (["--save-every", "5"], "--save-every needs --save DIR"),
        *(([flag, ""], f"{flag}: the name is empty; see --help") for flag in ("--resume", "--save", "--trace")),
        (["--lr-schedule", "magic"], "--lr-schedule is 'magic', expected constant, linear or cosine"),
    ):
        expect(folder, [program, *data, *arguments], "train: error: " + message)
    clipped = executable(folder, "--clip-grad-norm", name="clipped")
    for bound in ("0", "-1", "nan"):
        expect(
            folder,
            [clipped, *data, "--clip-norm", bound],
            f"clipped: error: --clip-norm is {bound}, expected a number above 0 (inf: without a bound)",
        )
    train(clipped, *data, "--steps", "1", "--clip-norm", "inf")
    nesterov = executable(folder, "--optimizer", "sgd", "--momentum", "--nesterov", name="nesterov")
    expect(
        folder,
        [nesterov, *data, "--momentum", "-1"],
        "nesterov: error: --momentum is -1, expected a finite number from 0 up",
    )
    expect(
        folder,
        [nesterov, *data, "--dampening", ".1"],
        "nesterov: error: --dampening: this executable was compiled without dampening (its optimizer is sgd); "
        "recompile with --optimizer sgd --momentum, without --nesterov",
    )
    expect(
        folder,
        [sgd, *data, "--beta1", ".9"],
        "sgd: error: --beta1: this executable was compiled without beta1 (its optimizer is sgd); recompile with "
        "--optimizer adam or adamw",
    )


if __name__ == "__main__":
    harness.main([data_files, label_range, checkpoints, first_values, saving, full_disk, run_time_flags])
