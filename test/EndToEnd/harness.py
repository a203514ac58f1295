"""What the end-to-end scripts share: compiling, training, reading back, and how a failure is told."""

import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
sys.path.append(str(MODELS))  # their generators
# By model: the file of each of its inputs.
INPUTS = {
    "mlp": {"x": "x.npy", "labels": "labels.npy"},
    "lenet": {"image": "image.npy", "labels": "labels.npy"},
    "resnet18": {"image": "image.npy", "labels": "labels.npy"},
    "gpt2": {"input_ids": "input_ids.npy", "labels": "labels.npy"},
    "llama": {"input_ids": "input_ids.npy", "labels": "labels.npy"},
    "bert": {"input_ids": "input_ids.npy", "attention_mask": "attention_mask.npy", "labels": "labels.npy"},
    "vit": {"pixel_values": "pixel_values.npy", "labels": "labels.npy"},
    "dropout": {"x": "x.npy", "labels": "labels.npy"},
}
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}


class Failure(Exception):
    """A check that did not hold; the text says what was found."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def fresh_folder(path):
    """An empty folder at `path`, which lit keeps for this test."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return pathlib.Path(path)


def run(arguments, ok=True, **options):
    """Runs a program; text of its outputs. `ok`: whether it has to succeed (None: either); a signal is no failure that a
    test may expect."""
    arguments = [str(a) for a in arguments]
    result = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    check(
        ok is None or (result.returncode == 0 if ok else result.returncode > 0),
        f"{'failed' if ok else 'did not fail'} with status {result.returncode}: {' '.join(arguments)}\n"
        f"{result.stdout}{result.stderr}",
    )
    return result


def compile_model(model, output, *flags, ok=True):
    """For SCRIMP_TEST_TARGET, where it is given: what scripts find of the CPU holds on an emulated device."""
    target = os.environ.get("SCRIMP_TEST_TARGET")
    if target and "--target" not in flags:
        flags = ("--target", target, *flags)
    return run(["scrimp-compile", model, "-o", output, "--quiet", *flags], ok)


def train(executable, *flags, ok=True, **options):
    return run([executable, *flags], ok, **options)


def read_metrics(path):
    """The JSON lines of a run: one object a step, and one an evaluation."""
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def train_steps(executable, metrics, *flags, **options):
    """Trains and returns the objects of the steps."""
    train(executable, "--metrics", metrics, *flags, **options)
    return [m for m in read_metrics(metrics) if "loss" in m]


def read_safetensors(path):
    """{name: array}; bfloat16 as its bits."""
    raw = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(raw[8 + length + begin : 8 + length + end], DTYPES[entry["dtype"]]).reshape(
                entry["shape"]
            )
    return tensors


def write_safetensors(path, tensors):
    """tensors: (name, array) pairs; a name may come twice."""
    entries, data = [], b""
    for name, array in tensors:
        kind = next(k for k, v in DTYPES.items() if v == array.dtype.str)
        place = [len(data), len(data) + array.nbytes]
        entries.append(
            f'{json.dumps(name)}: {json.dumps({"dtype": kind, "shape": array.shape, "data_offsets": place})}'
        )
        data += array.tobytes()
    header = ("{" + ", ".join(entries) + "}").encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def newest(folder):
    """The checkpoint that `latest` names."""
    folder = pathlib.Path(folder)
    return folder / (folder / "latest").read_text().strip()


def weights(folder):
    return read_safetensors(newest(folder) / "model.safetensors")


def same_checkpoints(a, b, what):
    """The bytes of weights and optimizer state are equal."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        left, right = (newest(folder) / name for folder in (a, b))
        if left.read_bytes() == right.read_bytes():
            continue
        left, right = read_safetensors(left), read_safetensors(right)
        check(
            list(left) == list(right),
            f"{what}: {name} differs in names: {sorted(set(left) ^ set(right)) or 'their order'}",
        )
        different = [n for n in left if left[n].tobytes() != right[n].tobytes()]
        n = (different or list(left))[0]
        raise Failure(
            f"{what}: {name} differs in {len(different)} of {len(left)} tensors, first '{n}' by "
            f"{np.abs(left[n].astype(float) - right[n].astype(float)).max() if left[n].size else 0:.3g}"
        )


def same_losses(a, b, what):
    """Losses and gradient norms of two runs are equal to the bit."""
    check(len(a) == len(b), f"{what}: {len(a)} against {len(b)} steps")
    for x, y in zip(a, b):
        for key in ("step", "loss", "grad_norm", "lr", "samples"):
            check(x.get(key) == y.get(key), f"{what}: step {x['step']} has {key} {x.get(key)} against {y.get(key)}")


def data_flags(folder, inputs, flag="--data"):
    return [text for name, file in inputs.items() for text in (flag, f"{name}={folder / file}")]


def main(tests):
    """python SCRIPT FOLDER [NAME ...]: the named functions of `tests` (default: all), each in a folder of its own."""
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    table = {t.__name__: t for t in tests}
    failed = 0
    for name in names or table:
        try:
            text = table[name](fresh_folder(folder / name))
            print(f"passed {name}{': ' + text if text else ''}", flush=True)
        except Failure as failure:
            failed += 1
            print(f"FAILED {name}: {failure}", flush=True)
    sys.exit(1 if failed else 0)
