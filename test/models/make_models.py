#!/usr/bin/env python3
"""Makes test/models/*: the ONNX files of every exporter, the data, and the reference trajectories.

    python make_models.py [MODEL ...]      # all by default; two minutes

Needs Python 3.11 with torch 2.15.0, torchvision 0.29.2, transformers 5.24.0, onnx 1.23.2, onnxscript 0.7.2,
safetensors 0.8.0, numpy 2.4.6. Deterministic: a second run writes the same files.

Every model is made twice, in processes of its own. The second lifts the frameworks' casts to float (transformers casts
inside its norms, softmax and rotary embedding) by making float32 another name of float64 before anything is imported.
"""
import os
import sys

LIFTED = "--lifted" in sys.argv
if LIFTED:
    import torch
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import json
import logging
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from initial_values import initial_value  # noqa: E402
from zoo import MODELS  # noqa: E402

STEPS = 20
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}


def load_scrimp_export():
    loader = importlib.machinery.SourceFileLoader("scrimp_export", str(HERE.parents[1] / "tools" / "scrimp-export"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("scrimp_export", loader))
    loader.exec_module(module)
    return module


# --- Initial values -----------------------------------------------------------------------------------------------------


def named_tensors(module):
    """Parameters and buffers, those outside the state_dict too, each once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def initial_values(model, fresh=False):
    """{name: float32 array}. Vectors are moved off their ones and zeros, so that dynamo's optimiser merges and drops
    nothing, unless `fresh`."""
    torch.manual_seed(0)
    module = model.build(model.attention[0])
    random = np.random.default_rng(99)
    values = {}
    for name, tensor in named_tensors(module).items():
        value = tensor.detach().numpy()
        if not model.weights and not (name in dict(module.named_buffers()) and name not in module.state_dict()):
            value = initial_value(name, value.shape).astype(value.dtype)
        elif value.ndim == 1 and isinstance(tensor, torch.nn.Parameter) and not fresh and model.weights:
            value = (value + random.normal(0, 0.02, value.shape)).astype(np.float32)
        values[name] = value
    return values


def instance(model, values, attention=None, dtype=None):
    module = model.build(attention or model.attention[0])
    if dtype:
        module = module.to(dtype)
    with torch.no_grad():
        for name, tensor in named_tensors(module).items():
            tensor.copy_(torch.from_numpy(values[name]))
    return module.train()


# --- Trajectories -------------------------------------------------------------------------------------------------------


class RoundedAttributes(TorchFunctionMode):
    """Rounds the floats that an ONNX file holds as float32 attributes or constants: norms' epsilon, attention's scale."""
    NAMES = ("layer_norm", "batch_norm", "group_norm", "rms_norm", "scaled_dot_product_attention")

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in self.NAMES:
            def rounded(v):
                return float(np.float32(v)) if isinstance(v, float) else v
            args, kwargs = tuple(map(rounded, args)), {k: rounded(v) for k, v in kwargs.items()}
        return function(*args, **kwargs)


def batch_of(model, data, step):
    count = len(next(iter(data.values()))) // model.batch
    start = step % count * model.batch
    return {name: array[start:start + model.batch] for name, array in data.items()}


def logits_of(output):
    return output if torch.is_tensor(output) else output.logits


def loss_of(module, model, batch):
    logits = logits_of(module(*(batch[name] for name in model.inputs)))
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[model.label].reshape(-1))


def trajectory(module, model, data):
    """20 steps of AdamW over the batches in file order: losses, gradient norms, norms of the final weights."""
    dtype = next(module.parameters()).dtype
    data = {n: torch.from_numpy(a).to(dtype) if a.dtype == np.float32 else torch.from_numpy(a) for n, a in data.items()}
    optimizer = torch.optim.AdamW(module.parameters(), **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module, model, batch_of(model, data, step))
        loss.backward()
        losses.append(loss.item())
        norms.append(sum(p.grad.to(torch.float64).square().sum().item() for p in module.parameters() if p.grad is not None) ** 0.5)
        optimizer.step()
    weights = {n: t.detach().to(torch.float64).square().sum().item() ** 0.5 for n, t in named_tensors(module).items() if t.is_floating_point()}
    return {"loss": losses, "grad_norm": norms, "weight_norms": weights}


def distance(a, b):
    """Largest relative distance of the losses, per step."""
    return [abs(x - y) / abs(y) for x, y in zip(a["loss"], b["loss"])]


def references_fp64(model, values, data):
    """The exact trajectory, checked by a second attention implementation, and the one with rounded attributes."""
    runs = [trajectory(instance(model, values, attention, torch.float64), model, data) for attention in model.attention]
    for other in runs[1:]:
        assert max(distance(other, runs[0])) < 1e-14, f"{model.name}: not a true fp64 reference: {max(distance(other, runs[0]))}"
    with RoundedAttributes():
        rounded = trajectory(instance(model, values, dtype=torch.float64), model, data)
    return runs[0], rounded


def float32_ways(model, values, data):
    """What PyTorch computes in float32 in each of its ways: convolutions by oneDNN or its own, layouts, threads."""
    ways = {}
    for onednn, threads, layout in itertools.product((True, False), (1, 2), (torch.contiguous_format, torch.channels_last)):
        torch.set_num_threads(threads)
        with torch.backends.mkldnn.flags(enabled=onednn):
            run = trajectory(instance(model, values).to(memory_format=layout), model, data)
        way = f"{'onednn' if onednn else 'native'}, {threads} threads, {str(layout)[6:]}"
        ways[way] = {quantity: run[quantity] for quantity in ("loss", "grad_norm")}
    torch.set_num_threads(1)
    return ways


# --- Exports ------------------------------------------------------------------------------------------------------------


def tensors(model, data, dtype):
    """The first batch: the inputs, then the labels."""
    batch = {n: torch.from_numpy(a) for n, a in batch_of(model, data, 0).items()}
    return [batch[n].to(dtype) if batch[n].is_floating_point() else batch[n] for n in (*model.inputs, model.label)]


def save(program, path, weights=True):
    """Stack traces and FX nodes name this machine and are half of the file; scopes and classes are kept. Without
    weights, float initializers become inputs; `export_params=False` would lose folded shapes with them."""
    graph = program.model.graph
    for node in graph.all_nodes():
        for key in ("pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node"):
            node.metadata_props.pop(key, None)
    for name, value in [] if weights else list(graph.initializers.items()):
        if value.const_value.dtype.is_floating_point():
            value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
            value.const_value = None
            graph.initializers.pop(name)
            graph.inputs.append(value)
    program.save(str(path))


def dynamo(module, model, inputs, path, opset, optimize, dynamic=False):
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs) if dynamic else None
    program = torch.onnx.export(module, tuple(inputs), None, dynamo=True, optimize=optimize, opset_version=opset, verbose=False,
                                input_names=list(model.inputs), output_names=["logits"], dynamic_shapes=shapes)
    save(program, path, model.weights)


def torchscript(module, model, inputs, path):
    """transformers looks for packed sequences by aten::diff, which this exporter lacks, unless it is given a mask."""
    from torch.onnx import TrainingMode
    if model.inputs == ("input_ids",):
        original = module.forward
        module.forward = lambda input_ids: original(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits
    torch.onnx.export(module, tuple(inputs), str(path), dynamo=False, opset_version=17, training=TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=list(model.inputs), output_names=["logits"],
                      dynamic_axes={n: {0: "batch"} for n in model.inputs}, export_params=model.weights,
                      keep_initializers_as_inputs=not model.weights)


def attempt(path, make):
    """An exporter's refusal is a result too: it is told, and leaves no file."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            make(path)
    except Exception as error:  # noqa: BLE001
        path.unlink(missing_ok=True)
        print(f"  {path.parent.name}/{path.name}: not exported: {type(error).__name__}: {str(error).splitlines()[0][:200]}")


def make_fp32(model, folder, values, fresh_values):
    data = model.data()
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    inputs = tensors(model, data, torch.float32)

    def module(v=values):
        return instance(model, v)

    for opset in (18, 23):
        for suffix, optimize in (("", False), ("-opt", True)):
            attempt(folder / f"dynamo{opset}{suffix}.onnx", lambda p: dynamo(module(), model, inputs[:-1], p, opset, optimize))
    if model.torchscript:
        attempt(folder / "torchscript17.onnx", lambda p: torchscript(module(), model, inputs[:-1], p))
    load_scrimp_export().export(module(), inputs, folder / "export.onnx", loss="cross_entropy", dynamic_batch=True,
                                weights=model.weights, input_names=[*model.inputs, model.label])
    if model.fresh:
        attempt(folder / "dynamo18-opt-fresh.onnx", lambda p: dynamo(module(fresh_values), model, inputs[:-1], p, 18, True))
    if model.name == "gpt2":
        attempt(folder / "dynamo18-dynamic.onnx", lambda p: dynamo(module(), model, inputs[:-1], p, 18, False, dynamic=True))
        attempt(folder / "dynamo18-eager.onnx", lambda p: dynamo(instance(model, values, "eager"), model, inputs[:-1], p, 18, False))
        attempt(folder / "dynamo18-loss.onnx", lambda p: loss_inside(module(), inputs, p))
    if not model.trajectory:
        return None, None
    return trajectory(module(), model, data), float32_ways(model, values, data) if model.chaotic else None


def loss_inside(module, inputs, path):
    """transformers' own loss: labels are the tokens, shifted inside; with the module's forward and names."""
    original = module.forward
    module.forward = lambda input_ids, labels: original(input_ids=input_ids, labels=labels).loss
    program = torch.onnx.export(module, (inputs[0], inputs[0].clone()), None, dynamo=True, optimize=False, opset_version=18,
                                verbose=False, input_names=["input_ids", "labels"], output_names=["loss"])
    save(program, path)


def make_fp64(model, folder, values, fresh_values):
    data = model.data()
    inputs = tensors(model, data, torch.float64)
    if model.weights and model.trajectory:
        attempt(folder / "dynamo18.f64.onnx", lambda p: dynamo(instance(model, values, dtype=torch.float64), model, inputs[:-1], p, 18, False))
    if model.trajectory:
        load_scrimp_export().export(instance(model, values, dtype=torch.float64), inputs, folder / "export.f64.onnx",
                                    loss="cross_entropy", dynamic_batch=True, weights=model.weights,
                                    input_names=[*model.inputs, model.label])
        exact, rounded = references_fp64(model, values, data)
        fresh = references_fp64(model, fresh_values, data)[1] if model.fresh else None
        return exact, rounded, fresh
    return None, None, None


# --- Driver -------------------------------------------------------------------------------------------------------------


def worker(name, scratch):
    """One process: everything of one precision of one model. Passes its trajectories on through `scratch`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    model, folder, scratch = MODELS[name], HERE / name, pathlib.Path(scratch)
    folder.mkdir(exist_ok=True)
    if LIFTED:
        values, fresh = (dict(np.load(scratch / f"{n}.npz")) for n in ("values", "fresh"))
        (scratch / "fp64.json").write_text(json.dumps(make_fp64(model, folder, values, fresh)))
    else:
        values, fresh = initial_values(model), initial_values(model, fresh=True)
        np.savez(scratch / "values.npz", **values)
        np.savez(scratch / "fresh.npz", **fresh)
        (scratch / "fp32.json").write_text(json.dumps(make_fp32(model, folder, values, fresh)))


def main(names):
    for name in names or MODELS:
        model = MODELS[name]
        with tempfile.TemporaryDirectory() as scratch:
            for flag in ([], ["--lifted"]):
                subprocess.run([sys.executable, __file__, "--worker", name, scratch, *flag], check=True,
                               env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
            if not model.trajectory:
                continue
            fp32, ways = json.loads(pathlib.Path(scratch, "fp32.json").read_text())
            exact, rounded, fresh = json.loads(pathlib.Path(scratch, "fp64.json").read_text())
        reference = {
            "model": name, "optimizer": {"name": "adamw", **ADAMW}, "steps": STEPS, "batch": model.batch,
            "inputs": {n: f"{n}.npy" for n in (*model.inputs, model.label)}, "loss": f"cross_entropy(logits,{model.label})",
            "weights": "in the files" if model.weights else "initial_values.py, seed 0",
            "fp64": exact, "fp64_rounded": rounded, "fp32": fp32,
            "distance": distance(fp32, exact), "distance_rounded": distance(rounded, exact),
        }
        if ways:
            reference["fp32_ways"] = ways
        if fresh:
            reference["fp64_rounded_fresh"] = fresh
        (HERE / name / "reference.json").write_text(json.dumps(reference, indent=1) + "\n")
        print(f"{name}: loss {exact['loss'][0]:.6f} -> {exact['loss'][-1]:.6f}, fp32-fp64 {max(reference['distance']):.1e}, "
              f"rounded attributes {max(reference['distance_rounded']):.1e}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        at = sys.argv.index("--worker")
        worker(sys.argv[at + 1], sys.argv[at + 2])
    else:
        main(sys.argv[1:])
