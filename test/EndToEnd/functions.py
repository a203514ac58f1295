"""Every loss, activation and reduction of PyTorch that exports, far out, near 0 and at its kinks: values and gradients.

python functions.py FOLDER [NAME ...]; test/models/make_functions.py says what the models are and what PyTorch finds.
"""

import json

import numpy as np

import harness
from harness import check, compile_model, fresh_folder, train

FOLDER = harness.MODELS / "functions"


def values_and_gradients(folder, route, precision):
    """One step of plain SGD with rate 1 from zeros leaves minus the gradients: {NAME.f: f(x), NAME.g: c f'(x)}."""
    program = folder / f"{route}-{precision}"
    flags = ["--precision", precision] if precision == "fp64" else []
    # The graph inputs without a value are parameters where the data are named, and trained where that is said.
    flags += ["--data", "one", "--trainable", "w.*", "--trainable", "v.*"]
    compile_model(FOLDER / f"{route}.onnx", program, "--optimizer", "sgd", *flags)
    np.save(folder / "one.npy", np.ones((1, 1), "f4"))
    save = fresh_folder(folder / f"{program.name}-save")
    train(program, "--data", f"one={folder}/one.npy", "--steps", "1", "--lr", "1", "--save", save)
    found = {}
    for name, array in harness.weights(save).items():
        kind, _, case = name.removesuffix("_bias").partition(".")
        if case:
            found[f"{case}.{'f' if kind == 'v' else 'g'}"] = -array.astype("f8")
    check(len(found) > 200, f"only {len(found)} results")
    return found


# Their elements are differences of numbers as large as the largest of all.
OF_ROWS = ("normalize", "cosine_similarity", "cosine_embedding", "pairwise_distance", "cross_entropy_weight")


def compare(found, relative, own):
    """Every result is finite, and as near to PyTorch's in double as `relative` of it or `own` times PyTorch's own error
    in float; where rows are combined, `relative` of the largest. Returns how many there are."""
    reference = np.load(FOLDER / "reference.npz")
    wrong = []
    for name, array in sorted(found.items()):
        right, error = reference[name], reference[name + "32"]
        check(array.shape == right.shape, f"{name} has shape {array.shape}, expected {right.shape}")
        size = np.abs(right).max() if name.rpartition(".")[0] in OF_ROWS else np.abs(right)
        bad = ~(np.abs(array - right) <= relative * size + own * error + 1e-37)
        if bad.any():
            i = int(np.argmax(bad))
            wrong.append(f"{name}[{i}] is {array[i]:.9g}, expected {right[i]:.9g}")
    check(not wrong, f"{len(wrong)} of {len(found)} results differ:\n" + "\n".join(wrong))
    return f"{len(found)} results"


def exported(folder):
    return compare(values_and_gradients(folder, "export", "fp32"), 2e-6, 4)


def optimised(folder):
    return compare(values_and_gradients(folder, "dynamo18-opt", "fp32"), 2e-6, 4)


def torchscript(folder):
    return compare(values_and_gradients(folder, "torchscript17", "fp32"), 2e-6, 4)


def in_double(folder):
    return compare(values_and_gradients(folder, "export", "fp64"), 1e-11, 0)


if __name__ == "__main__":
    harness.main([exported, optimised, torchscript, in_double])
