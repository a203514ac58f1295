"""A trained checkpoint goes back into the class it came from, whose next loss is Scrimp's.

TORCH_PYTHON round_trip.py FOLDER MODEL [...]     needs torch, safetensors, and the model's own package
"""

import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file

import harness
from harness import MODELS, check

sys.path.insert(0, str(MODELS))
import zoo  # noqa: E402

BOUND = 2e-6


def round_trip(folder, name):
    model = zoo.MODELS[name]
    reference = json.loads((MODELS / name / "reference.json").read_text())
    data = harness.data_flags(MODELS / name, reference["inputs"])
    weightless = [] if model.weights else [f for n in reference["inputs"] for f in ("--data", n)]
    harness.compile_model(MODELS / name / "export.onnx", folder / "train", "--dim", f"batch={model.batch}", *weightless)
    harness.train(
        folder / "train",
        "--steps",
        "5",
        "--save",
        folder / "save",
        "--metrics",
        folder / "m.jsonl",
        "--lr",
        "1e-4",
        *data,
        *(f.replace("--data", "--eval-data") for f in data),
    )
    evaluated = harness.read_metrics(folder / "m.jsonl")[-1]["eval_loss"]
    module = model.build(model.attention[0]).eval()
    tensors = load_file(harness.newest(folder / "save") / "model.safetensors")
    module.load_state_dict(tensors, strict=True)
    for a, b in ((a, b) for a in tensors for b in tensors if a < b):
        state = module.state_dict()
        if state[a].data_ptr() == state[b].data_ptr() and state[a].numel():
            check(torch.equal(tensors[a], tensors[b]), f"'{a}' and '{b}' are tied, but differ")
    arrays = {n: torch.from_numpy(np.load(MODELS / name / f)) for n, f in reference["inputs"].items()}
    total, count = 0.0, 0
    with torch.no_grad():
        for first in range(0, len(arrays[model.label]), model.batch):
            batch = {n: a[first : first + model.batch] for n, a in arrays.items()}
            output = module(*(batch[n] for n in model.inputs))
            logits = output if torch.is_tensor(output) else output.logits
            labels = batch[model.label].reshape(-1)
            total += torch.nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), labels, reduction="sum"
            ).item()
            count += (labels != -100).sum().item()
    expected = total / count
    check(abs(evaluated / expected - 1) < BOUND, f"Scrimp's eval loss {evaluated}, PyTorch's {expected}")
    return f"{len(tensors)} tensors, eval loss {evaluated:.6f}, off by {abs(evaluated / expected - 1):.1e}"


def main():
    folder, failed = harness.fresh_folder(sys.argv[1]), 0
    for name in sys.argv[2:]:
        (folder / name).mkdir()
        try:
            print(f"passed {name}: {round_trip(folder / name, name)}", flush=True)
        except (harness.Failure, RuntimeError) as failure:
            failed += 1
            print(f"FAILED {name}: {failure}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
