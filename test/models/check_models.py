#!/usr/bin/env python3
"""Checks every committed ONNX file against its reference.json: the loss of the first batch, by onnx's own evaluator.

    python check_models.py [FOLDER ...]      # needs onnx, safetensors, numpy; no PyTorch

An independent reading of the files: neither torch nor Scrimp takes part. Files without weights get those of
initial_values.py. BatchNormalization in evaluation form (raw dynamo) computes another loss, so ResNet-18's are skipped.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

from initial_values import initial_value

HERE = pathlib.Path(__file__).resolve().parent


def cross_entropy(logits, labels):
    logits, labels = logits.reshape(-1, logits.shape[-1]).astype(np.float64), labels.reshape(-1)
    kept = labels != -100
    shifted = logits - logits.max(1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -log_probabilities[np.flatnonzero(kept), labels[kept]].mean()


def feeds_of(model, folder, batch):
    metadata = {p.key: p.value for p in model.metadata_props}
    weights = load_file(folder / metadata["scrimp.weights"]) if "scrimp.weights" in metadata else {}
    defined = {i.name for i in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in defined:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        data = folder / f"{value.name}.npy"
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = (np.load(data)[:batch] if data.exists() else weights[value.name] if weights
                             else initial_value(value.name, shape)).astype(dtype)
    return feeds


def check(path):
    """None where it agrees, else what differs."""
    reference = json.loads((path.parent / "reference.json").read_text())
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    feeds = feeds_of(model, path.parent, reference["batch"])
    outputs = dict(zip((o.name for o in model.graph.output), ReferenceEvaluator(model).run(None, feeds)))
    expected = reference["fp64_rounded_fresh" if "fresh" in path.name else "fp64"]["loss"][0]
    # onnx's Erf and Gelu compute in float32, whatever the type.
    bar = 1e-9 if ".f64" in path.name else 1e-6
    found = []
    if "logits" in outputs:
        found.append(cross_entropy(outputs["logits"], np.load(path.parent / "labels.npy")[:reference["batch"]]))
    if "loss" in outputs and "logits" in outputs:
        found.append(float(outputs["loss"]))
    wrong = [f for f in found if abs(f - expected) > bar * abs(expected)]
    return f"loss {wrong[0]!r}, expected {expected!r}" if wrong else None


def main(names):
    folders = [HERE / n for n in names] or sorted(p.parent for p in HERE.rglob("reference.json"))
    failed = 0
    for folder in folders:
        for path in sorted(folder.glob("*.onnx")):
            if folder.name == "resnet18":
                continue
            message = check(path)
            failed += message is not None
            print(f"{path.relative_to(HERE)}: {message or 'agrees'}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
