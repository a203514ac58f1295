#!/usr/bin/env python3
"""Makes test/models/functions: the losses, activations and reductions of PyTorch far out, near 0 and at their kinks.

    python make_functions.py      # same packages as make_models.py; some minutes

A case is a function f of a vector. In the model it adds sum((c + v) f(x + w)) to the loss, its points x and the weights
c = 1, .5, 2, 1, ... being constants, its parameters v and w zero: the gradient of v is f(x), that of w is c f'(x).
reference.npz has both for every case, as PyTorch computes them in double ("NAME.f", "NAME.g") and how far PyTorch is
from that in float ("NAME.f32", "NAME.g32"). Points at which PyTorch is not finite in float are left out.

A route has the cases that its exporter takes and tells apart; the parameters of the others do not occur in its file.
"""
import logging
import pathlib
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from make_models import load_scrimp_export

HERE = pathlib.Path(__file__).resolve().parent / "functions"
FAR = [0.0, 1e-9, -1e-9, 1.0, -1.0, 20.0, -20.0, 90.0, -90.0, 1e4, -1e4]
T = [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 0.0, 1.0, 0.0, 0.25, 1.0]  # targets


def t(x):
    """Targets in [0, 1], both ends at every magnitude."""
    return torch.tensor(T, dtype=x.dtype)[: x.numel()]


def u(x):
    """The other targets."""
    return 1 - t(x)


def sign(x):
    return torch.where(t(x) > 0.4, 1.0, -1.0).to(x.dtype)


def pairs(x):
    """Each point beside a 0: rows of two."""
    return torch.stack([x, torch.zeros_like(x)], -1)


def row(x):
    return x.reshape(1, -1)


def labels(x):
    return (torch.arange(x.numel()) % 2).to(torch.int64)


def like(x, values):
    return torch.tensor(values, dtype=x.dtype)


# Far out and near 0: name, function. Losses at both kinds of target.
FUNCTIONS = {
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, 2.0, 5.0),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "relu": F.relu,
    "relu6": F.relu6,
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 0.5),
    "selu": F.selu,
    "leaky_relu": F.leaky_relu,
    "prelu": lambda x: F.prelu(x, like(x, [0.25])),
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "threshold": lambda x: F.threshold(x, 1.0, -2.0),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "glu": lambda x: F.glu(torch.cat([1 + x / 1e4, x])),
    "softmax": lambda x: F.softmax(pairs(x), -1),
    "softmin": lambda x: F.softmin(pairs(x), -1),
    "softmax_columns": lambda x: F.softmax(pairs(x).T, 0),
    "log_softmax": lambda x: F.log_softmax(pairs(x), -1),
    "log_softmax_columns": lambda x: F.log_softmax(pairs(x).T, 0),
    "normalize": lambda x: F.normalize(pairs(x) + like(x, [0.0, 1.0])),
    "l1": lambda x: F.l1_loss(x, t(x), reduction="none"),
    "mse": lambda x: F.mse_loss(x, t(x)),
    "huber": lambda x: F.huber_loss(x, t(x), delta=0.5, reduction="none"),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, t(x), beta=0.5, reduction="none"),
    "bce": lambda x: F.binary_cross_entropy(torch.sigmoid(x), t(x), reduction="none"),
    "bce_other": lambda x: F.binary_cross_entropy(torch.sigmoid(x), u(x), weight=t(x) + 1, reduction="none"),
    "bce_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, t(x), reduction="none"),
    "bce_with_logits_other": lambda x: F.binary_cross_entropy_with_logits(x, u(x), reduction="none"),
    "bce_with_logits_mean": lambda x: F.binary_cross_entropy_with_logits(x, t(x), weight=t(x) + 1),
    "bce_with_logits_pos": lambda x: F.binary_cross_entropy_with_logits(
        x, t(x), pos_weight=t(x) + 0.5, reduction="none"
    ),
    "bce_with_logits_both": lambda x: F.binary_cross_entropy_with_logits(
        x, u(x), weight=t(x) + 1, pos_weight=t(x) + 0.5
    ),
    "cross_entropy": lambda x: F.cross_entropy(pairs(x), labels(x), reduction="none"),
    "cross_entropy_weight": lambda x: F.cross_entropy(pairs(x), 1 - labels(x), weight=like(x, [0.5, 2.0])),
    "nll": lambda x: F.nll_loss(F.log_softmax(pairs(x), -1), labels(x)),
    "kl_div": lambda x: F.kl_div(x, t(x), reduction="none"),
    "kl_div_log": lambda x: F.kl_div(x, t(x) - 2, log_target=True, reduction="none"),
    "poisson_nll": lambda x: F.poisson_nll_loss(x, t(x) + 1, reduction="none"),
    "poisson_nll_full": lambda x: F.poisson_nll_loss(x, t(x) * 3, full=True, reduction="none"),
    "gaussian_nll": lambda x: F.gaussian_nll_loss(x, t(x), t(x) + 0.1, reduction="none"),
    "soft_margin": lambda x: F.soft_margin_loss(x, sign(x), reduction="none"),
    "soft_margin_other": lambda x: F.soft_margin_loss(x, -sign(x), reduction="none"),
    "multilabel_soft_margin": lambda x: F.multilabel_soft_margin_loss(row(x), row(t(x).round())),
    "multi_margin": lambda x: F.multi_margin_loss(pairs(x), labels(x), reduction="none"),
    "cosine_embedding": lambda x: F.cosine_embedding_loss(
        pairs(x) + 1, pairs(x).flip(-1) + 0.5, sign(x), reduction="none"
    ),
    "cosine_similarity": lambda x: F.cosine_similarity(pairs(x) + like(x, [0.5, 1.0]), like(x, [[1.0, 2.0]])),
    "margin_ranking": lambda x: F.margin_ranking_loss(x, t(x), sign(x), margin=0.5, reduction="none"),
    "hinge_embedding": lambda x: F.hinge_embedding_loss(x, sign(x), reduction="none"),
    "triplet_margin": lambda x: F.triplet_margin_loss(pairs(x), pairs(t(x)), pairs(sign(x)), reduction="none"),
    "pairwise_distance": lambda x: F.pairwise_distance(pairs(x), pairs(t(x) + 0.5)),
    "log_sum_exp": lambda x: torch.logsumexp(pairs(x), 1),
    "log_sum_exp_rows": lambda x: torch.logsumexp(pairs(x), (0, 1)),
    "log_add_exp": lambda x: torch.logaddexp(x, t(x)),
    "log_add_exp_both": lambda x: torch.logaddexp(x, 1 - 2 * x),
    "expm1": torch.expm1,
    "log1p": torch.log1p,
    # Written by hand in models.
    "hand_log_sigmoid": lambda x: torch.log(torch.sigmoid(x)),
    "hand_log_complement": lambda x: torch.log(1 - torch.sigmoid(x)),
    "hand_log_one_plus_exp": lambda x: torch.log(1 + torch.exp(x)),
    "hand_log_softmax": lambda x: torch.log(F.softmax(pairs(x), -1)),
    "hand_log_picked": lambda x: -torch.log(F.softmax(pairs(x), -1).gather(1, labels(x)[:, None])),
    "hand_log_sum_exp": lambda x: torch.log(torch.exp(pairs(x)).sum(-1)),
    "hand_shifted": lambda x: (m := pairs(x).amax(-1)) + torch.log(torch.exp(pairs(x) - m[:, None]).sum(-1)),
    "hand_sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "hand_quotient": lambda x: torch.exp(x) / (1 + torch.exp(x)),
    "hand_complement": lambda x: 1 - torch.sigmoid(x),
    "hand_one_minus_exp": lambda x: 1 - torch.exp(-x),
}



def clamped(log):
    return log.clamp(min=-100)


def bce(x, target, positive=1.0):
    return -positive * target * F.logsigmoid(x) - (1 - target) * F.logsigmoid(-x)


# What some of those compute, written so that PyTorch loses nothing: Scrimp must not, either. (binary_cross_entropy
# clamps logarithms at -100, but sees a sigmoid only after it has been rounded to 1; hardsigmoid's gradient is 1/6 in
# float also in double.)
EXACT = {
    "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1),
    "kink_hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1),
    "bce_with_logits": lambda x: bce(x, t(x)),
    "bce_with_logits_other": lambda x: bce(x, u(x)),
    "bce_with_logits_mean": lambda x: ((t(x) + 1) * bce(x, t(x))).mean(),
    "bce_with_logits_pos": lambda x: bce(x, t(x), t(x) + 0.5),
    "bce_with_logits_both": lambda x: ((t(x) + 1) * bce(x, u(x), t(x) + 0.5)).mean(),
    "bce": lambda x: -t(x) * clamped(F.logsigmoid(x)) - u(x) * clamped(F.logsigmoid(-x)),
    "bce_other": lambda x: -(t(x) + 1) * (u(x) * clamped(F.logsigmoid(x)) + t(x) * clamped(F.logsigmoid(-x))),
    "soft_margin": lambda x: -F.logsigmoid(x * sign(x)),
    "soft_margin_other": lambda x: -F.logsigmoid(-x * sign(x)),
    "hand_log_sigmoid": F.logsigmoid,
    "hand_log_complement": lambda x: F.logsigmoid(-x),
    "hand_log_one_plus_exp": lambda x: -F.logsigmoid(-x),
    "hand_log_softmax": lambda x: F.log_softmax(pairs(x), -1),
    "hand_log_picked": lambda x: F.cross_entropy(pairs(x), labels(x), reduction="none"),
    "hand_log_sum_exp": lambda x: torch.logsumexp(pairs(x), 1),
    "hand_sigmoid": torch.sigmoid,
    "hand_quotient": torch.sigmoid,
    "hand_complement": lambda x: torch.sigmoid(-x),
    "hand_one_minus_exp": lambda x: -torch.expm1(-x),
}

# Kinks: name, function, points.
KINKS = {
    "relu": (F.relu, [0.0, -0.0]),
    "relu6": (F.relu6, [0.0, 6.0, 3.0]),
    "hardtanh": (F.hardtanh, [-1.0, 1.0, 0.5]),
    "clamp": (lambda x: x.clamp(-1, 1), [-1.0, 1.0, 0.5]),
    "clamp_min": (lambda x: x.clamp(min=1), [1.0, 2.0, 0.0]),
    "clamp_max": (lambda x: x.clamp(max=1), [1.0, 2.0, 0.0]),
    "clamp_tensor": (lambda x: torch.clamp(x, min=like(x, [0.0, 1.0, 0.0])), [0.0, 1.0, 2.0]),
    "clamp_tensors": (lambda x: torch.clamp(x, like(x, [0.0, 1.0]), like(x, [1.0, 2.0])), [0.0, 2.0]),
    "maximum": (lambda x: torch.maximum(x, like(x, [1.0, 1.0, 3.0])), [1.0, 2.0, 2.0]),
    "maximum_one": (lambda x: torch.maximum(x, like(x, 1.0)), [1.0, 2.0, 0.0]),
    "minimum": (lambda x: torch.minimum(x, like(x, [1.0, 1.0, 3.0])), [1.0, 2.0, 2.0]),
    "max_of_two": (lambda x: torch.max(x, like(x, [1.0, 1.0])), [1.0, 0.0]),
    "hardswish": (F.hardswish, [-3.0, 3.0, 0.0]),
    "hardsigmoid": (F.hardsigmoid, [-3.0, 3.0, 0.0]),
    "abs": (torch.abs, [0.0, -0.0, -1.0]),
    "sign": (torch.sign, [0.0, 2.0]),
    "floor": (torch.floor, [1.0, 1.5]),
    "ceil": (torch.ceil, [1.0, 1.5]),
    "round": (torch.round, [0.5, 1.5]),
    "remainder": (lambda x: torch.remainder(x, 1.0), [0.0, 1.0, -0.5]),
    "fmod": (lambda x: torch.fmod(x, 1.0), [0.0, 1.0, -0.5]),
    "leaky_relu": (F.leaky_relu, [0.0, -0.0]),
    "prelu": (lambda x: F.prelu(x, like(x, [0.25])), [0.0, -0.0]),
    "elu": (lambda x: F.elu(x, 1.5), [0.0, -0.0]),
    "celu": (lambda x: F.celu(x, 0.5), [0.0, -0.0]),
    "selu": (F.selu, [0.0, -0.0]),
    "softsign": (F.softsign, [0.0]),
    "hardshrink": (F.hardshrink, [-0.5, 0.5, 0.0]),
    "softshrink": (F.softshrink, [-0.5, 0.5, 0.0]),
    "threshold": (lambda x: F.threshold(x, 1.0, -2.0), [1.0, 2.0]),
    "softplus_threshold": (lambda x: F.softplus(x, 1, 2), [2.0, 3.0]),
    "where": (lambda x: torch.where(x > 0, x, -x), [0.0, 1.0]),
    "pow": (lambda x: x**1.5, [0.0, 4.0]),
    "pow_2": (lambda x: x**2, [0.0, 4.0]),
    "pow_0": (lambda x: x**0, [0.0, 4.0]),
    "base_0": (lambda x: torch.zeros_like(x) ** (x + 1), [0.0, 1.0]),
    "l1": (lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="none"), [0.0, 1.0]),
    "smooth_l1": (lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"), [1.0, -1.0, 0.0]),
    "huber": (lambda x: F.huber_loss(x, torch.zeros_like(x), delta=0.5, reduction="none"), [0.5, -0.5, 0.0]),
    "hinge_embedding": (lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x), reduction="none"), [1.0, 0.0]),
    "margin_ranking": (
        lambda x: F.margin_ranking_loss(x, torch.zeros_like(x), torch.ones_like(x), margin=1.0, reduction="none"),
        [1.0, 0.0],
    ),
    "multi_margin": (lambda x: F.multi_margin_loss(row(x), torch.tensor([0])), [1.0, 0.0, 0.5]),
    "triplet_margin": (
        lambda x: F.triplet_margin_loss(row(x), row(like(x, [0.0, 0.0])), row(like(x, [1.0, 0.0]))),
        [0.0, 0.0],
    ),
    "max": (torch.max, [1.0, 3.0, 3.0]),
    "max_dim": (lambda x: torch.max(row(x), 1)[0], [1.0, 3.0, 3.0]),
    "max_dim_index": (lambda x: (lambda m: m[0] * (m[1] + 1))(torch.max(x.reshape(3, 1), 0)), [1.0, 3.0, 3.0]),
    "amax": (lambda x: torch.amax(row(x), 1), [1.0, 3.0, 3.0]),
    "min": (torch.min, [1.0, 1.0, 3.0]),
    "min_dim": (lambda x: torch.min(row(x), 1)[0], [2.0, 1.0, 1.0]),
    "amin": (lambda x: torch.amin(row(x), 1), [1.0, 1.0, 3.0]),
    "sort": (lambda x: torch.sort(x)[0] * like(x, [1.0, 2.0, 4.0]), [3.0, 3.0, 1.0]),
    "prod": (torch.prod, [0.0, 2.0, 3.0]),
    "prod_zeros": (torch.prod, [0.0, 0.0, 3.0]),
    "prod_dim": (lambda x: torch.prod(row(x), 1), [2.0, 0.0]),
    "max_pool1d": (lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2), [1.0, 1.0, 0.0, 2.0]),
    "max_pool2d": (lambda x: F.max_pool2d(x.reshape(1, 1, 2, 4), 2), [1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 2.0, 2.0]),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x.reshape(1, 1, -1), 1), [1.0, 2.0, 2.0]),
    "norm": (torch.norm, [0.0, 0.0]),
    "norm_rows": (lambda x: torch.linalg.vector_norm(x.reshape(2, 2), dim=1), [0.0, 0.0, 3.0, 4.0]),
    "norm_1": (lambda x: torch.linalg.vector_norm(x, 1), [0.0, -1.0]),
    "norm_3": (lambda x: torch.linalg.vector_norm(x, 3), [0.0, 0.0]),
    "norm_inf": (lambda x: torch.linalg.vector_norm(x, float("inf")), [1.0, -1.0, 0.0]),
    "norm_inf_zero": (lambda x: torch.linalg.vector_norm(x, float("inf")), [0.0, 0.0]),
    "norm_least": (lambda x: torch.linalg.vector_norm(x, -float("inf")), [1.0, -1.0, 2.0]),
    "normalize": (lambda x: F.normalize(x.reshape(2, 2)), [0.0, 0.0, 3.0, 4.0]),
    "cosine_similarity": (lambda x: F.cosine_similarity(row(x), like(x, [[1.0, 2.0]])), [0.0, 0.0]),
    "pairwise_distance": (lambda x: F.pairwise_distance(row(x), row(torch.zeros_like(x))), [0.0, 0.0]),
    "dist": (lambda x: torch.dist(x, torch.zeros_like(x)), [0.0, 0.0]),
    "bce_at_0": (lambda x: F.binary_cross_entropy(x, like(x, [1.0, 0.5, 0.25]), reduction="none"), [0.0, 0.0, 0.5]),
    "bce_at_1": (lambda x: F.binary_cross_entropy(x, like(x, [0.0, 0.5, 0.25]), reduction="none"), [1.0, 1.0, 0.5]),
    "std": (torch.std, [1.0, 1.0]),
    "std_rows": (lambda x: torch.std(x.reshape(2, 2), 1), [1.0, 1.0, 1.0, 3.0]),
    "var": (torch.var, [1.0, 1.0]),
}


# What a route's exporter does not take, or writes as another function or without an argument (adaptive pooling and
# torch.max over a dimension as amax, a deviation as a root; distances without their epsilon).
WITHOUT = {
    "export": ["gaussian_nll", "kink_adaptive_max_pool1d"],
    "dynamo18-opt": ["gaussian_nll", "kink_adaptive_max_pool1d"],
    "torchscript17": (
        "threshold l1 huber smooth_l1 bce bce_other poisson_nll poisson_nll_full soft_margin soft_margin_other "
        "multi_margin cosine_embedding margin_ranking hinge_embedding triplet_margin log_add_exp log_add_exp_both "
        "expm1 kink_threshold kink_l1 kink_smooth_l1 kink_huber kink_hinge_embedding kink_margin_ranking "
        "kink_multi_margin kink_triplet_margin kink_dist kink_bce_at_0 kink_bce_at_1 "
        "kink_max_dim kink_max_dim_index kink_min_dim kink_std kink_std_rows kink_softplus_threshold pairwise_distance "
        "kink_pairwise_distance kink_cosine_similarity"
    ).split(),
}


def weights_of(y):
    return torch.tensor([1.0, 0.5, 2.0], dtype=y.dtype).repeat(y.numel() // 3 + 1)[: y.numel()]


def evaluate(function, points, dtype):
    """f and the gradient of sum(c f)."""
    x = torch.tensor(np.array(points, "f4"), dtype=dtype, requires_grad=True)
    y = function(x).reshape(-1)
    (gradient,) = torch.autograd.grad((weights_of(y) * y).sum(), x)
    return y.detach().double().numpy(), gradient.double().numpy()


def finite_points(function, points):
    """The points at which f and its gradient are finite in float, alone and together."""

    def is_finite(chosen):
        return all(np.isfinite(part).all() for part in evaluate(function, chosen, torch.float32))

    if is_finite(points):
        return points
    points = [p for p in points if is_finite([p])]
    while not is_finite(points):
        points = points[:-1]
    return points


class Functions(nn.Module):
    def __init__(self, cases, reference):
        super().__init__()
        self.cases = cases
        self.w, self.v = nn.ParameterDict(), nn.ParameterDict()
        for name, (_, points) in cases.items():
            self.w[name] = nn.Parameter(torch.zeros(len(points)))
            self.v[name] = nn.Parameter(torch.zeros(len(reference[f"{name}.f"])))

    def forward(self, one):
        return loss_of(self.cases, one, self.w, self.v)


def loss_of(cases, one, w, v):
    total = 0
    for name, (function, points) in cases.items():
        y = function(torch.tensor(np.array(points, "f4")) + w[name]).reshape(-1)
        total = total + ((weights_of(y) + v[name]) * y).sum()
    return total * one.sum()


def as_inputs(module):
    """The same with its parameters as graph inputs w.NAME_bias, which start from zeros by their names: as initializers
    the exporter would merge them. One parameter stays, so that the file tells parameters from constants."""
    names = ["one"] + [f"{n}_bias" for n, _ in module.named_parameters()]

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, one, *parameters):
            values = dict(zip((n for n, _ in module.named_parameters()), parameters))
            w, v = ({n: values[f"{kind}.{n}"] for n in module.cases} for kind in "wv")
            return loss_of(module.cases, one * self.scale, w, v)

    values = (torch.ones(1, 1), *(p.detach() for p in module.parameters()))
    return Wrapped(), values, {"input_names": names, "output_names": ["loss"]}


def write(route, cases, reference, path):
    module = Functions(cases, reference)
    if route == "export":
        load_scrimp_export().export(module, (torch.ones(1, 1),), path, output_names=["loss"], weights=False)
        return
    wrapped, values, names = as_inputs(module)
    if route == "torchscript17":
        torch.onnx.export(wrapped, values, path, dynamo=False, opset_version=17, **names)
    else:
        torch.onnx.export(
            wrapped, values, path, dynamo=True, opset_version=18, external_data=False, verbose=False, **names
        )
        import onnx

        model = onnx.load(path)
        for node in model.graph.node:  # machine-dependent, and half of the file
            kept = [p for p in node.metadata_props if p.key not in ("pkg.torch.onnx.stack_trace", "namespace")]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
        onnx.save(model, path)


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    HERE.mkdir(exist_ok=True)
    cases = {n: (f, FAR) for n, f in FUNCTIONS.items()} | {f"kink_{n}": c for n, c in KINKS.items()}
    reference = {}
    for name, (function, points) in list(cases.items()):
        exact = EXACT.get(name, function)
        points = finite_points(exact, points)
        cases[name] = (function, points)
        assert points, name
        (f, g), (f32, g32) = (evaluate(exact, points, d) for d in (torch.float64, torch.float32))
        reference |= {f"{name}.f": f, f"{name}.g": g, f"{name}.f32": abs(f32 - f), f"{name}.g32": abs(g32 - g)}
        if len(points) < len(FAR) and name in FUNCTIONS:
            print(f"{name}: not finite at {sorted(set(FAR) - set(points))}")
    np.savez_compressed(HERE / "reference.npz", **reference)
    for route in ("export", "dynamo18-opt", "torchscript17"):
        taken = {n: c for n, c in cases.items() if n not in WITHOUT[route]}
        write(route, taken, reference, HERE / f"{route}.onnx")
        print(f"{route}: {len(taken)} of {len(cases)} cases")


if __name__ == "__main__":
    main()
