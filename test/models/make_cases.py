#!/usr/bin/env python3
"""Makes test/models/cases/*: traps of the exporters, each small enough to check by hand. See README.md.

    python make_cases.py      # same packages as make_models.py; ten seconds
"""
import copy
import json
import logging
import pathlib
import warnings

import numpy as np
import torch
import torch.nn as nn
from make_models import ADAMW, STEPS, attempt, distance, dynamo, load_scrimp_export, named_tensors, torchscript, trajectory
from zoo import Model

HERE = pathlib.Path(__file__).resolve().parent / "cases"


class Tied(nn.Module):
    """Trap 14: embedding and head are one 4x3 parameter, sin(arange/10)."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight
        with torch.no_grad():
            self.embedding.weight.copy_(torch.sin(torch.arange(12, dtype=torch.float64) / 10).reshape(4, 3))

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


class TiedLate(nn.Module):
    """Trap 30: the tied pair stands behind three other parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(30)
        self.scale = nn.Parameter(torch.full((5,), 0.5))
        self.shift = nn.Parameter(torch.linspace(-1, 1, 5))
        self.mix = nn.Linear(5, 5, bias=False)
        self.embedding = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.mix(self.embedding(tokens)) * self.scale + self.shift)


class TwoLayerNorms(nn.Module):
    """Trap 59: fresh, so that all weights are ones and all biases zeros."""

    def __init__(self):
        super().__init__()
        self.norm_1 = nn.LayerNorm(8)
        self.norm_2 = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm_2(torch.tanh(self.norm_1(x)))


class Buffers(nn.Module):
    """Trap 60: rotary frequencies and a causal mask are float buffers; neither is trained."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(60)
        self.embed = nn.Embedding(11, 8)
        self.query, self.key, self.value = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.head = nn.Linear(8, 11)
        self.register_buffer("inv_freq", 10.0 ** -torch.arange(0, 4, dtype=torch.float32))
        self.register_buffer("causal_mask", torch.triu(torch.full((6, 6), -1e9), 1), persistent=False)

    def rotate(self, x):
        angle = torch.arange(x.shape[1], device=x.device).to(x.dtype)[:, None] * self.inv_freq
        first, second = x[..., :4], x[..., 4:]
        return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)

    def forward(self, tokens):
        x = self.embed(tokens)
        scores = self.rotate(self.query(x)) @ self.rotate(self.key(x)).transpose(1, 2) * 0.5 + self.causal_mask
        return self.head(x + torch.softmax(scores, -1) @ self.value(x))


class Frozen(nn.Module):
    """A frozen first layer, and two named parameters of equal values that are not tied."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(61)
        self.first, self.left, self.right, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.right.load_state_dict(self.left.state_dict())
        self.first.requires_grad_(False)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.last(torch.tanh(self.left(hidden)) * torch.sigmoid(self.right(hidden)))


def _floats(count, width, classes, seed):
    random = np.random.default_rng(seed)
    return (np.round(random.normal(size=(count, width)) * 16) / 16).astype(np.float32), random.integers(0, classes, count)


def _walk(count, length, classes, seed):
    random = np.random.default_rng(seed)
    tokens = np.cumsum(random.integers(1, 3, (count, length + 1)), 1) % classes
    return tokens[:, :-1], tokens[:, 1:]


def _case(name, build, inputs, data, batch):
    arrays = dict(zip((*inputs, "labels"), data))
    return Model(name, lambda attention: build(), lambda: arrays, inputs, batch)


CASES = (
    _case("tied", Tied, ("tokens",), (np.array([0, 1, 1]), np.array([1, 2, 3])), 3),
    _case("tied-late", TiedLate, ("tokens",), _walk(4, 6, 7, 30), 2),
    _case("two-layer-norms", TwoLayerNorms, ("x",), _floats(8, 8, 8, 59), 4),
    _case("buffers", Buffers, ("tokens",), _walk(8, 6, 11, 60), 4),
    _case("frozen", Frozen, ("x",), _floats(8, 4, 3, 61), 4),
)


def make(case, scrimp_export):
    folder = HERE / case.name
    folder.mkdir(parents=True, exist_ok=True)
    data = case.data()
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    module = case.build(None).train()
    inputs = [torch.from_numpy(data[n][:case.batch]) for n in (*case.inputs, case.label)]
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    for file, optimize in (("dynamo18.onnx", False), ("dynamo18-opt.onnx", True)):
        attempt(folder / file, lambda p: dynamo(copy.deepcopy(module), case, inputs[:-1], p, 18, optimize))
    attempt(folder / "torchscript17.onnx", lambda p: torchscript(copy.deepcopy(module), case, inputs[:-1], p))
    for file, m, values in (("export.onnx", module, inputs), ("export.f64.onnx", copy.deepcopy(module).double(), wide)):
        scrimp_export.export(m, values, folder / file, loss="cross_entropy", input_names=[*case.inputs, case.label])
    exact, fp32 = trajectory(copy.deepcopy(module).double(), case, data), trajectory(copy.deepcopy(module), case, data)
    kinds = {n: "parameter" if t.requires_grad else "frozen" if isinstance(t, nn.Parameter) else "buffer"
             for n, t in named_tensors(module).items()}
    (folder / "reference.json").write_text(json.dumps({
        "model": case.name, "optimizer": {"name": "adamw", **ADAMW}, "steps": STEPS, "batch": case.batch,
        "inputs": {n: f"{n}.npy" for n in (*case.inputs, case.label)}, "loss": f"cross_entropy(logits,{case.label})",
        "weights": "in the files", "tensors": kinds, "fp64": exact, "fp32": fp32, "distance": distance(fp32, exact)}, indent=1) + "\n")
    print(f"{case.name}: loss {exact['loss'][0]:.6f}, gradient norm {exact['grad_norm'][0]:.6f}, fp32-fp64 {max(distance(fp32, exact)):.1e}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    exporter = load_scrimp_export()
    for each in CASES:
        make(each, exporter)
