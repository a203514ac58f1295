#!/usr/bin/env python3
"""Exports torch.nn's modules and functions argument by argument, trains each for a step, and compares with PyTorch.

    SCRIMP_TORCH_PYTHON torch_nn.py COMPILER FOLDER [PATTERN ...]

Every case runs in fp64 by SGD with a learning rate of 1, so that a step gives every gradient, those of the float inputs
too. A case ends in `ok`, in `refused` with the exporter's or the compiler's message, or in `WRONG`, which alone fails.
"""
import fnmatch
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.nn.utils.prune
    import onnx, onnxscript  # noqa: F401
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "scrimp-export"
_loader = importlib.machinery.SourceFileLoader("scrimp_export", str(TOOL))
scrimp_export = importlib.util.module_from_spec(importlib.util.spec_from_loader("scrimp_export", _loader))
_loader.exec_module(scrimp_export)

torch.set_default_dtype(torch.float64)
CASES = {}


def case(name, make, *inputs, data=()):
    """make() is a module or a function of `inputs`, which are trained, and of `data`, which are not."""
    assert name not in CASES, name
    CASES[name] = (make, inputs, data)


class Harness(nn.Module):
    """The sum of a module's outputs, weighted by the input `w`."""

    def __init__(self, tested, inputs):
        super().__init__()
        if isinstance(tested, nn.Module):
            self.tested = tested
        else:
            self.function = tested
        self.inputs = nn.ParameterList([nn.Parameter(x.clone()) for x in inputs])

    def outputs(self, *data):
        tested = self.tested if hasattr(self, "tested") else self.function
        result = tested(*self.inputs, *data)
        if torch.is_tensor(result):
            return result
        flat, stack = [], [result]
        while stack:
            item = stack.pop(0)
            if torch.is_tensor(item):
                flat += [item.reshape(-1)] if item.is_floating_point() else []
            else:
                stack = list(item) + stack
        return torch.cat(flat)

    def forward(self, w, *data):
        return (self.outputs(*data) * w).sum()


def images(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def one(make, **kwargs):
    return lambda: make(**kwargs)


def call(function, *args, **kwargs):
    """A function with further arguments, to be called with tensors."""
    return lambda: lambda *tensors: function(*tensors, *args, **kwargs)


x2, x3, x4, x5 = images(3, 8), images(2, 4, 9), images(2, 4, 7, 6), images(1, 2, 5, 4, 4)
positive = images(3, 8).abs() + 0.1

# --- Elementwise -----------------------------------------------------------------------------------------------------
for name, kwargs in (
    ("CELU", {}), ("CELU", {"alpha": 0.3}), ("ELU", {}), ("ELU", {"alpha": 0.4}), ("GELU", {}), ("GELU", {"approximate": "tanh"}),
    ("GLU", {}), ("GLU", {"dim": 1}), ("Hardshrink", {}), ("Hardshrink", {"lambd": 0.2}), ("Hardsigmoid", {}), ("Hardswish", {}),
    ("Hardtanh", {}), ("Hardtanh", {"min_val": -0.3, "max_val": 0.7}), ("LeakyReLU", {}), ("LeakyReLU", {"negative_slope": 0.3}),
    ("LogSigmoid", {}), ("LogSoftmax", {"dim": 1}), ("LogSoftmax", {"dim": 0}), ("Mish", {}), ("PReLU", {}),
    ("PReLU", {"init": 0.7}), ("ReLU", {}), ("ReLU", {"inplace": True}), ("ReLU6", {}), ("SELU", {}), ("SiLU", {}), ("Sigmoid", {}),
    ("Softmax", {"dim": 1}), ("Softmax", {"dim": 0}), ("Softmin", {"dim": 1}), ("Softplus", {}), ("Softplus", {"beta": 2.5, "threshold": 0.7}),
    ("Softshrink", {}), ("Softshrink", {"lambd": 0.2}), ("Softsign", {}), ("Tanh", {}), ("Tanhshrink", {}),
    ("Threshold", {"threshold": 0.2, "value": 3.0}), ("Flatten", {"start_dim": 0}), ("Unflatten", {"dim": 1, "unflattened_size": (2, 4)}),
    ("Identity", {}), ("RReLU", {"lower": 0.2, "upper": 0.2})):
    case(f"{name}({kwargs})", one(getattr(nn, name), **kwargs), x2 * 2)
case("RReLU.eval", lambda: nn.RReLU().eval(), x2)
case("PReLU(num_parameters)", one(nn.PReLU, num_parameters=4), x4)
case("Softmax2d", one(nn.Softmax2d), x4)
for function in ("softmax", "log_softmax"):
    case(f"F.{function}(dtype)", call(getattr(F, function), dim=-1, dtype=torch.float64), x2)
case("F.normalize", call(F.normalize), x2)
case("F.normalize(p)", call(F.normalize, p=3.0, dim=0, eps=0.1), x2)
case("F.normalize(eps)", call(F.normalize, eps=9.0), x2)
case("F.one_hot", lambda: lambda x, i: x * F.one_hot(i, 8), x2, data=(torch.tensor([1, 0, 7]),))

# --- Linear ------------------------------------------------------------------------------------------------------------
case("Linear", one(nn.Linear, in_features=8, out_features=5), x2)
case("Linear(bias)", one(nn.Linear, in_features=8, out_features=5, bias=False), x2)
case("Bilinear", one(nn.Bilinear, in1_features=8, in2_features=4, out_features=3), x2, images(3, 4))
case("CosineSimilarity", one(nn.CosineSimilarity), x2, images(3, 8, seed=1))
case("CosineSimilarity(dim,eps)", one(nn.CosineSimilarity, dim=0, eps=20.0), x2, images(3, 8, seed=1))
for kwargs in ({}, {"p": 1.0}, {"p": 3.0, "eps": 0.1, "keepdim": True}, {"p": float("inf")}):
    case(f"PairwiseDistance({kwargs})", one(nn.PairwiseDistance, **kwargs), x2, images(3, 8, seed=1))
case("F.pdist", call(F.pdist), x2)
case("torch.cdist", call(torch.cdist), x2, images(4, 8))

# --- Convolution ---------------------------------------------------------------------------------------------------------
for kwargs in ({}, {"stride": 2}, {"padding": 1}, {"padding": "same"}, {"padding": "same", "dilation": 2}, {"padding": "valid"}, {"dilation": 2},
               {"groups": 2}, {"bias": False}, {"padding": 1, "padding_mode": "reflect"}, {"padding": 1, "padding_mode": "replicate"},
               {"padding": 1, "padding_mode": "circular"}, {"padding": 2, "stride": 2, "dilation": 2, "groups": 4}):
    case(f"Conv1d({kwargs})", one(nn.Conv1d, in_channels=4, out_channels=4, kernel_size=3, **kwargs), x3)
    case(f"Conv2d({kwargs})", one(nn.Conv2d, in_channels=4, out_channels=4, kernel_size=(3, 2), **kwargs), x4)
case("Conv2d.unbatched", one(nn.Conv2d, in_channels=4, out_channels=2, kernel_size=2), images(4, 5, 5))
case("Conv3d", one(nn.Conv3d, in_channels=2, out_channels=2, kernel_size=2), x5)
for kwargs in ({}, {"stride": 2}, {"padding": 1}, {"stride": 3, "output_padding": 2}, {"groups": 2}, {"bias": False}, {"dilation": 2},
               {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 2}):
    case(f"ConvTranspose1d({kwargs})", one(nn.ConvTranspose1d, in_channels=4, out_channels=4, kernel_size=3, **kwargs), x3)
    case(f"ConvTranspose2d({kwargs})", one(nn.ConvTranspose2d, in_channels=4, out_channels=4, kernel_size=(3, 2), **kwargs), x4)
case("ConvTranspose3d", one(nn.ConvTranspose3d, in_channels=2, out_channels=2, kernel_size=2), x5)
case("ConvTranspose2d(output_size)", lambda: OutputSize(), x4)
case("Fold", one(nn.Fold, output_size=(4, 5), kernel_size=(2, 2)), images(2, 8, 12))
case("Fold(all)", one(nn.Fold, output_size=(4, 5), kernel_size=(2, 2), dilation=2, padding=1, stride=2), images(2, 8, 4))
case("Unfold", one(nn.Unfold, kernel_size=(2, 3)), x4)
case("Unfold(all)", one(nn.Unfold, kernel_size=(2, 3), dilation=2, padding=1, stride=2), x4)
case("F.conv_tbc", call(F.conv_tbc), images(5, 2, 3), images(2, 3, 4), images(4))


class OutputSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 2, 3, stride=2)

    def forward(self, x):
        return self.up(x, output_size=(16, 14))


# --- Pooling -------------------------------------------------------------------------------------------------------------
for kwargs in ({}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True}, {"padding": 1, "count_include_pad": False},
               {"padding": 1, "ceil_mode": True}, {"padding": 1, "ceil_mode": True, "count_include_pad": False, "stride": 2}):
    case(f"AvgPool1d({kwargs})", one(nn.AvgPool1d, kernel_size=2, **kwargs), x3)
    case(f"AvgPool2d({kwargs})", one(nn.AvgPool2d, kernel_size=(3, 2), **kwargs), x4)
for divisor in (1, 5):
    case(f"AvgPool2d(divisor_override={divisor})", one(nn.AvgPool2d, kernel_size=(3, 2), divisor_override=divisor), x4)
    case(f"AvgPool2d(divisor_override={divisor},ceil,padding)", one(nn.AvgPool2d, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True,
         divisor_override=divisor), x4)
case("AvgPool2d(divisor_override,not counted)", one(nn.AvgPool2d, kernel_size=(3, 2), padding=1, count_include_pad=False, divisor_override=3), x4)
case("AvgPool2d(divisor_override).unbatched", one(nn.AvgPool2d, kernel_size=(3, 2), divisor_override=4), images(4, 5, 5))
case("AvgPool3d", one(nn.AvgPool3d, kernel_size=2), x5)
case("AvgPool3d(divisor_override)", one(nn.AvgPool3d, kernel_size=2, divisor_override=3), x5)
for kwargs in ({}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True}, {"dilation": 2, "stride": 1}, {"padding": 1, "ceil_mode": True, "stride": 2}):
    case(f"MaxPool1d({kwargs})", one(nn.MaxPool1d, kernel_size=3, **kwargs), x3)
    case(f"MaxPool2d({kwargs})", one(nn.MaxPool2d, kernel_size=(3, 2), **kwargs), x4)
case("MaxPool2d(return_indices)", one(nn.MaxPool2d, kernel_size=2, return_indices=True), x4)
case("MaxPool3d", one(nn.MaxPool3d, kernel_size=2), x5)
for size in (1, 3, 2, None):
    case(f"AdaptiveAvgPool1d({size})", one(nn.AdaptiveAvgPool1d, output_size=size), x3)
    case(f"AdaptiveMaxPool1d({size})", one(nn.AdaptiveMaxPool1d, output_size=size), x3)
for size in (1, (7, 3), (1, 6), (3, 4), (None, 2)):
    case(f"AdaptiveAvgPool2d({size})", one(nn.AdaptiveAvgPool2d, output_size=size), x4)
    case(f"AdaptiveMaxPool2d({size})", one(nn.AdaptiveMaxPool2d, output_size=size), x4)
case("AdaptiveMaxPool2d(return_indices)", one(nn.AdaptiveMaxPool2d, output_size=1, return_indices=True), x4)
case("AdaptiveAvgPool3d(1)", one(nn.AdaptiveAvgPool3d, output_size=1), x5)
for kwargs in ({"norm_type": 2.0}, {"norm_type": 3.0, "stride": 1}, {"norm_type": 2.0, "ceil_mode": True}):
    case(f"LPPool1d({kwargs})", one(nn.LPPool1d, kernel_size=2, **kwargs), x3.abs())
    case(f"LPPool2d({kwargs})", one(nn.LPPool2d, kernel_size=2, **kwargs), x4.abs())
case("FractionalMaxPool2d", one(nn.FractionalMaxPool2d, kernel_size=2, output_size=3), x4)


class Unpool(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        return self.unpool(*self.pool(x))


case("MaxUnpool2d", Unpool, images(2, 4, 6, 6))

# --- Padding -------------------------------------------------------------------------------------------------------------
for dims, x, pads in ((1, x3, (2, 1)), (2, x4, (2, 1, 0, 3))):
    for kind in ("Circular", "Reflection", "Replication", "Zero"):
        case(f"{kind}Pad{dims}d", one(getattr(nn, f"{kind}Pad{dims}d"), padding=pads), x)
    case(f"ConstantPad{dims}d", one(getattr(nn, f"ConstantPad{dims}d"), padding=pads, value=0.7), x)
    case(f"ConstantPad{dims}d(negative)", one(getattr(nn, f"ConstantPad{dims}d"), padding=(-1,) + pads[1:], value=0.7), x)
for kind in ("Circular", "Reflection", "Replication", "Zero"):
    case(f"{kind}Pad3d", one(getattr(nn, f"{kind}Pad3d"), padding=1), x5)

# --- Norms -----------------------------------------------------------------------------------------------------------------
for dims, x in ((1, x3), (2, x4)):
    for kwargs in ({}, {"eps": 0.3}, {"momentum": 0.4}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"bias": False}):
        kind = getattr(nn, f"BatchNorm{dims}d")
        case(f"BatchNorm{dims}d({kwargs})", one(kind, num_features=4, **kwargs), x)
        case(f"BatchNorm{dims}d.eval({kwargs})", lambda kind=kind, kwargs=kwargs: kind(4, **kwargs).eval(), x)
        kind = getattr(nn, f"InstanceNorm{dims}d")
        if kwargs != {"momentum": None}:
            case(f"InstanceNorm{dims}d({kwargs})", one(kind, num_features=4, **{"affine": True, **kwargs}), x)
    case(f"InstanceNorm{dims}d(plain)", one(kind, num_features=4), x)
    for affine in (False, True):
        case(f"InstanceNorm{dims}d(track,affine={affine})", one(kind, num_features=4, affine=affine, track_running_stats=True), x)
        case(f"InstanceNorm{dims}d.eval(track,affine={affine})",
             lambda kind=kind, affine=affine: kind(4, affine=affine, track_running_stats=True).eval(), x)
        case(f"InstanceNorm{dims}d.eval(affine={affine})", lambda kind=kind, affine=affine: kind(4, affine=affine).eval(), x)
case("BatchNorm1d.2d", one(nn.BatchNorm1d, num_features=8), x2)
case("SyncBatchNorm", one(nn.SyncBatchNorm, num_features=4), x4)
case("BatchNorm3d", one(nn.BatchNorm3d, num_features=2), x5)
for kwargs in ({}, {"eps": 0.3}, {"affine": False}, {"bias": False}):
    case(f"GroupNorm({kwargs})", one(nn.GroupNorm, num_groups=2, num_channels=4, **kwargs), x4)
for kwargs in ({}, {"eps": 0.3}, {"elementwise_affine": False}, {"bias": False}):
    case(f"LayerNorm({kwargs})", one(nn.LayerNorm, normalized_shape=(7, 6), **kwargs), x4)
for kwargs in ({}, {"eps": 0.3}, {"elementwise_affine": False}):
    case(f"RMSNorm({kwargs})", one(nn.RMSNorm, normalized_shape=8, **kwargs), x2)
for kwargs in ({"size": 2}, {"size": 3, "alpha": 0.5, "beta": 0.6, "k": 2.0}):
    case(f"LocalResponseNorm({kwargs})", one(nn.LocalResponseNorm, **kwargs), x4)
case("CrossMapLRN2d", one(nn.CrossMapLRN2d, size=3), x4)
case("F.batch_norm(training)", call(F.batch_norm, None, None, training=True), x4)
case("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 5)), x2)
case("weight_norm.old", lambda: nn.utils.weight_norm(nn.Linear(8, 5)), x2)
case("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 5)), x2)
case("spectral_norm.eval", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 5)).eval(), x2)
case("spectral_norm.old", lambda: nn.utils.spectral_norm(nn.Linear(8, 5)), x2)
case("orthogonal", lambda: nn.utils.parametrizations.orthogonal(nn.Linear(8, 5)), x2)
case("prune", lambda: nn.utils.prune.l1_unstructured(nn.Linear(8, 5), "weight", amount=0.3), x2)

# --- Dropout: in evaluation, and at probabilities without chance ------------------------------------------------------------
for name, x in (("Dropout", x2), ("Dropout1d", x3), ("Dropout2d", x4), ("AlphaDropout", x2), ("FeatureAlphaDropout", x4)):
    case(f"{name}.eval", lambda name=name: getattr(nn, name)(0.4).eval(), x)
    case(f"{name}(p=0)", one(getattr(nn, name), p=0.0), x)
    case(f"{name}(p=1)", one(getattr(nn, name), p=1.0), x)
    case(f"{name}(inplace,p=1)", lambda name=name: nn.Sequential(nn.Identity(), Twice(), getattr(nn, name)(p=1.0, inplace=True)), x)


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


# --- Lookups ---------------------------------------------------------------------------------------------------------------
ids = torch.tensor([[1, 0, 2], [6, 0, 5], [1, 1, 3]])
for kwargs in ({}, {"padding_idx": 0}, {"padding_idx": -6}, {"padding_idx": 4}, {"scale_grad_by_freq": True}, {"sparse": True}, {"max_norm": 0.5},
               {"max_norm": 0.5, "norm_type": 1.0}, {"_freeze": True}):
    case(f"Embedding({kwargs})", one(nn.Embedding, num_embeddings=7, embedding_dim=4, **kwargs), data=(ids,))
    if "_freeze" not in kwargs:
        for mode in ("sum", "mean", "max"):
            if mode != "max" or not (kwargs.keys() & {"scale_grad_by_freq", "sparse"}):
                case(f"EmbeddingBag({mode},{kwargs})", one(nn.EmbeddingBag, num_embeddings=7, embedding_dim=4, mode=mode, **kwargs), data=(ids,))
case("F.embedding(padding_idx)", lambda: lambda w, i: F.embedding(i, w, padding_idx=1), images(7, 4), data=(ids,))
case("Embedding(padding_idx) tied", lambda: Tied(), data=(ids,))
case("EmbeddingBag(per_sample_weights)", lambda: lambda w, s, i: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"), images(7, 4), images(3, 3),
     data=(ids,))
case("EmbeddingBag(per_sample_weights,padding_idx)", lambda: lambda w, s, i: F.embedding_bag(i, w, per_sample_weights=s, mode="sum", padding_idx=1),
     images(7, 4), images(3, 3), data=(ids,))
case("EmbeddingBag(offsets)", lambda: lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 4, 6]), mode="mean"), images(7, 4), data=(ids.reshape(-1),))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4, padding_idx=1), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i):
        return self.head(self.embedding(i))


# --- Recurrent -----------------------------------------------------------------------------------------------------------
sequence = images(5, 2, 4)
for name in ("RNN", "LSTM", "GRU"):
    for kwargs in ({}, {"num_layers": 2}, {"bias": False}, {"batch_first": True}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True},
                   {"num_layers": 2, "dropout": 1.0}):
        case(f"{name}({kwargs})", one(getattr(nn, name), input_size=4, hidden_size=3, **kwargs), sequence)
    case(f"{name}.eval(dropout)", lambda name=name: getattr(nn, name)(4, 3, num_layers=2, dropout=0.5).eval(), sequence)
    case(f"{name}(unbatched)", one(getattr(nn, name), input_size=4, hidden_size=3), images(5, 4))
case("RNN(relu)", one(nn.RNN, input_size=4, hidden_size=3, nonlinearity="relu"), sequence)
case("RNN(h0)", one(nn.RNN, input_size=4, hidden_size=3), sequence, images(1, 2, 3))
case("GRU(h0)", one(nn.GRU, input_size=4, hidden_size=3), sequence, images(1, 2, 3))
case("LSTM(proj_size)", one(nn.LSTM, input_size=4, hidden_size=3, proj_size=2), sequence)
case("LSTM(h0,c0)", lambda: lambda x, h, c, m=nn.LSTM(4, 3): m(x, (h, c)), sequence, images(1, 2, 3), images(1, 2, 3, seed=1))
for name in ("RNNCell", "LSTMCell", "GRUCell"):
    for kwargs in ({}, {"bias": False}):
        case(f"{name}({kwargs})", one(getattr(nn, name), input_size=8, hidden_size=3, **kwargs), x2)
case("RNNCell(relu)", one(nn.RNNCell, input_size=8, hidden_size=3, nonlinearity="relu"), x2)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 3)

    def forward(self, x):
        return self.rnn(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3])))[1][0]


case("LSTM(packed)", Packed, sequence)

# --- Attention -----------------------------------------------------------------------------------------------------------
for kwargs in ({}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"batch_first": True}, {"kdim": 8, "vdim": 8}, {"dropout": 1.0}):
    case(f"MultiheadAttention({kwargs})", one(nn.MultiheadAttention, embed_dim=8, num_heads=2, **kwargs), images(5, 2, 8), images(4, 2, 8), images(4, 2, 8, seed=1))
for kwargs in ({"need_weights": False}, {"average_attn_weights": False}, {"key_padding_mask": torch.tensor([[False, False, True, False], [False] * 4])},
               {"attn_mask": torch.triu(torch.ones(5, 4), 1).bool()}, {"attn_mask": images(5, 4)}, {"need_weights": False, "is_causal": True, "attn_mask":
               torch.triu(torch.ones(5, 4), 1).bool()}):
    case(f"MultiheadAttention.forward({','.join(kwargs)}{'' if 'attn_mask' not in kwargs else kwargs['attn_mask'].dtype})",
         lambda kwargs=kwargs: Attend(kwargs), images(5, 2, 8), images(4, 2, 8), images(4, 2, 8, seed=1))


class Attend(nn.Module):
    def __init__(self, kwargs):
        super().__init__()
        self.attention, self.kwargs = nn.MultiheadAttention(8, 2), kwargs

    def forward(self, q, k, v):
        return self.attention(q, k, v, **self.kwargs)


for kwargs in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": images(5, 5)}, {"attn_mask": torch.ones(5, 5).tril().bool()},
               {"attn_mask": images(5, 5), "scale": 2.0}, {"dropout_p": 1.0}):
    case(f"F.scaled_dot_product_attention({','.join(kwargs)}{kwargs['attn_mask'].dtype if 'attn_mask' in kwargs else ''})",
         call(F.scaled_dot_product_attention, **kwargs), images(2, 2, 5, 4), images(2, 2, 5, 4, seed=1), images(2, 2, 5, 4, seed=2))
case("F.scaled_dot_product_attention(enable_gqa)", call(F.scaled_dot_product_attention, enable_gqa=True), images(2, 4, 5, 4), images(2, 2, 5, 4, seed=1),
     images(2, 2, 5, 4, seed=2))
case("F.scaled_dot_product_attention(attn_mask trained)", lambda: lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
     images(2, 2, 5, 4), images(2, 2, 5, 4, seed=1), images(2, 2, 5, 4, seed=2), images(5, 5))
layer = {"d_model": 8, "nhead": 2, "dim_feedforward": 6, "dropout": 0.0}
for kwargs in ({}, {"activation": "gelu"}, {"layer_norm_eps": 0.1}, {"batch_first": True}, {"norm_first": True}, {"bias": False}, {"dropout": 1.0}):
    case(f"TransformerEncoderLayer({kwargs})", one(nn.TransformerEncoderLayer, **{**layer, **kwargs}), images(5, 2, 8))
    case(f"TransformerDecoderLayer({kwargs})", one(nn.TransformerDecoderLayer, **{**layer, **kwargs}), images(5, 2, 8), images(4, 2, 8))
case("TransformerEncoder.eval", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer, batch_first=True), 2).eval(), images(5, 2, 8))
case("Transformer", one(nn.Transformer, num_encoder_layers=1, num_decoder_layers=1, **layer), images(5, 2, 8), images(4, 2, 8))

# --- Vision --------------------------------------------------------------------------------------------------------------
case("ChannelShuffle", one(nn.ChannelShuffle, groups=2), x4)
case("PixelShuffle", one(nn.PixelShuffle, upscale_factor=2), x4)
case("PixelUnshuffle", one(nn.PixelUnshuffle, downscale_factor=2), images(2, 3, 4, 6))
for mode, x in (("nearest", x4), ("nearest-exact", x4), ("bilinear", x4), ("bicubic", x4), ("area", x4), ("linear", x3), ("nearest", x3)):
    spatial = x.dim() - 2
    for kwargs in ({"size": (5, 13)[:spatial]}, {"scale_factor": 2.0}, {"scale_factor": 1.7}, {"scale_factor": 1.7, "recompute_scale_factor": True},
                   {"scale_factor": 0.6}):
        case(f"Upsample{spatial}({mode},{kwargs})", one(nn.Upsample, mode=mode, **kwargs), x)
        if "linear" in mode or "cubic" in mode:
            case(f"Upsample{spatial}({mode},corners,{kwargs})", one(nn.Upsample, mode=mode, align_corners=True, **kwargs), x)
for mode in ("nearest", "nearest-exact", "bilinear"):
    for factor in (1.7, 0.7, 1 / 3, 2 ** 0.5):
        case(f"Upsample2({mode},edges,{factor:.3})", one(nn.Upsample, mode=mode, scale_factor=factor), images(1, 1, 10, 33))
for mode in ("bilinear", "bicubic"):
    for corners in (False, True):
        case(f"F.interpolate({mode},antialias,{corners})", call(F.interpolate, size=(4, 3), mode=mode, align_corners=corners, antialias=True), x4)
case("UpsamplingBilinear2d", one(nn.UpsamplingBilinear2d, scale_factor=2), x4)
case("UpsamplingNearest2d", one(nn.UpsamplingNearest2d, size=(9, 8)), x4)
case("F.grid_sample", call(F.grid_sample, align_corners=False), x4, images(2, 3, 3, 2).tanh())
case("F.affine_grid", call(F.affine_grid, (2, 3, 4, 5), align_corners=False), images(2, 2, 3))

# --- Losses --------------------------------------------------------------------------------------------------------------
labels, weights = torch.tensor([1, -100, 5]), torch.linspace(0.2, 2.0, 8)
for reduction in ("mean", "sum", "none"):
    r = {"reduction": reduction}
    for kwargs in ({}, {"weight": weights}, {"ignore_index": 5}, {"label_smoothing": 0.1}, {"label_smoothing": 0.1, "weight": weights},
                   {"label_smoothing": 0.3, "ignore_index": 5, "weight": weights}):
        target = labels if "ignore_index" not in kwargs else labels.clamp(min=0)
        label = ",".join(k if k == "weight" else f"{k}={v}" for k, v in kwargs.items())
        case(f"CrossEntropyLoss({reduction},{label})", one(nn.CrossEntropyLoss, **kwargs, **r), x2, data=(target,))
        if "label_smoothing" not in kwargs:
            case(f"NLLLoss({reduction},{label})", one(nn.NLLLoss, **kwargs, **r), x2, data=(target,))
            case(f"NLLLoss.2d({reduction},{label})", one(nn.NLLLoss, **{**kwargs, **({"weight": weights[:4]} if "weight" in kwargs else {})}, **r), images(2, 4, 3, 2),
                 data=(torch.tensor([[[0, 3], [1, 1], [2, 0]], [[1, 2], [3, 3], [0, 0]]]),))
    case(f"CrossEntropyLoss.2d({reduction})", one(nn.CrossEntropyLoss, **r), images(2, 4, 3, 2), data=(torch.tensor([[[0, 3], [1, 1], [2, 0]], [[1, 2], [3, 3], [0, -100]]]),))
    case(f"CrossEntropyLoss.2d({reduction},label_smoothing,weight)", one(nn.CrossEntropyLoss, label_smoothing=0.1, weight=weights[:4], **r), images(2, 4, 3, 2),
         data=(torch.tensor([[[0, 3], [1, 1], [2, 0]], [[1, 2], [3, 3], [0, -100]]]),))
    for kwargs in ({}, {"weight": weights}, {"label_smoothing": 0.1}, {"label_smoothing": 0.1, "weight": weights}):
        case(f"CrossEntropyLoss.probabilities({reduction},{','.join(kwargs)})", one(nn.CrossEntropyLoss, **kwargs, **r), x2,
             data=(images(3, 8, seed=3).softmax(1),))
    p, t = positive / positive.max() * 0.9 + 0.05, images(3, 8, seed=4).sigmoid()
    for kwargs in ({}, {"weight": weights}):
        case(f"BCELoss({reduction},{','.join(kwargs)})", one(nn.BCELoss, **kwargs, **r), p, data=(t,))
        case(f"MultiLabelSoftMarginLoss({reduction},{','.join(kwargs)})", one(nn.MultiLabelSoftMarginLoss, **kwargs, **r), x2, data=(t.round(),))
    for kwargs in ({}, {"weight": weights}, {"pos_weight": weights}, {"weight": weights, "pos_weight": weights.flip(0)}):
        case(f"BCEWithLogitsLoss({reduction},{','.join(kwargs)})", one(nn.BCEWithLogitsLoss, **kwargs, **r), x2, data=(t,))
    for name, kwargs in (("L1Loss", {}), ("MSELoss", {}), ("HuberLoss", {}), ("HuberLoss", {"delta": 0.3}), ("SmoothL1Loss", {}),
                         ("SmoothL1Loss", {"beta": 0.4}), ("SmoothL1Loss", {"beta": 0.0})):
        case(f"{name}({reduction},{kwargs})", one(getattr(nn, name), **kwargs, **r), x2, data=(images(3, 8, seed=5),))
    for function in ("mse_loss", "l1_loss", "huber_loss"):
        case(f"F.{function}({reduction},weight)", call(getattr(F, function), weight=weights, **r), x2, data=(images(3, 8, seed=5),))
    signs = torch.tensor([1.0, -1.0, 1.0])
    for kwargs in ({}, {"margin": 0.4}):
        case(f"CosineEmbeddingLoss({reduction},{kwargs})", one(nn.CosineEmbeddingLoss, **kwargs, **r), x2, images(3, 8, seed=1), data=(signs,))
        case(f"MarginRankingLoss({reduction},{kwargs})", one(nn.MarginRankingLoss, **kwargs, **r), images(3), images(3, seed=1), data=(signs,))
        case(f"HingeEmbeddingLoss({reduction},{kwargs})", one(nn.HingeEmbeddingLoss, **kwargs, **r), images(3), data=(signs,))
    for kwargs in ({}, {"full": True}, {"eps": 0.9}):
        case(f"GaussianNLLLoss({reduction},{kwargs})", one(nn.GaussianNLLLoss, **kwargs, **r), x2, data=(images(3, 8, seed=1), positive))
    for kwargs in ({}, {"log_target": True}):
        case(f"KLDivLoss({reduction},{kwargs})", one(nn.KLDivLoss, **kwargs, **r), x2, data=(t.log() if kwargs else t,))
    for kwargs in ({}, {"log_input": False}, {"full": True}, {"log_input": False, "eps": 0.3}):
        case(f"PoissonNLLLoss({reduction},{kwargs})", one(nn.PoissonNLLLoss, **kwargs, **r), positive, data=(t * 3,))
    case(f"SoftMarginLoss({reduction})", one(nn.SoftMarginLoss, **r), x2, data=(images(3, 8, seed=1).sign(),))
    for kwargs in ({}, {"p": 2}, {"margin": 0.3}, {"weight": weights}):
        case(f"MultiMarginLoss({reduction},{','.join(map(str, kwargs))})", one(nn.MultiMarginLoss, **kwargs, **r), x2, data=(torch.tensor([1, 0, 5]),))
    case(f"MultiLabelMarginLoss({reduction})", one(nn.MultiLabelMarginLoss, **r), x2, data=(torch.tensor([[3, 0, -1, 0, 0, 0, 0, 0]] * 3),))
    for kwargs in ({}, {"margin": 0.3, "p": 1.0}, {"swap": True}, {"eps": 0.2}):
        case(f"TripletMarginLoss({reduction},{kwargs})", one(nn.TripletMarginLoss, **kwargs, **r), x2, images(3, 8, seed=1), images(3, 8, seed=2))
    case(f"TripletMarginWithDistanceLoss({reduction})", one(nn.TripletMarginWithDistanceLoss, **r), x2, images(3, 8, seed=1), images(3, 8, seed=2))
    case(f"CTCLoss({reduction})", call(F.ctc_loss, torch.tensor([[1, 2], [3, 1]]), (6, 6), (2, 2), **r), images(6, 2, 5).log_softmax(2))
case("F.linear_cross_entropy", call(F.linear_cross_entropy), x2, images(5, 8), data=(torch.tensor([1, 0, 3]),))
case("AdaptiveLogSoftmaxWithLoss", one(nn.AdaptiveLogSoftmaxWithLoss, in_features=8, n_classes=10, cutoffs=[4, 7]), x2, data=(torch.tensor([1, 5, 9]),))


# --- Gradients -----------------------------------------------------------------------------------------------------------
class Partial(nn.Linear):
    """Only a half of the weight is trained."""

    def forward(self, x):
        return F.linear(x, torch.cat([self.weight[:2].detach(), self.weight[2:]]), self.bias)


class Shadowed(nn.Linear):
    def forward(self, x):
        return super().forward(x).data * x[:, :5]


class Straight(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y + (y.round() - y).detach()


class Ordered(nn.Module):
    def forward(self, x):
        return x.requires_grad_(False) * 2 if not x.requires_grad else x * 2


class Hooked(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        if y.requires_grad:
            y.register_hook(lambda g: g * 2)
        return y


def frozen(module, name):
    module.get_parameter(name).requires_grad_(False)
    return module


case("detach(part)", lambda: Partial(8, 5), x2)
case("data", lambda: Shadowed(8, 5), x2)
case("straight-through", lambda: Straight(8, 5), x2)
case("tensor hook", lambda: Hooked(8, 5), x2)
case("requires_grad", lambda: frozen(nn.Linear(8, 5), "weight"), x2)
case("detach", lambda: lambda x: x * x.detach(), x2)
case("clone", lambda: lambda x: x.clone() * 2, x2)
case("no_grad", lambda: NoGrad(), x2)
case("inference buffer", lambda: Buffered(), x2)


class NoGrad(nn.Linear):
    def __init__(self):
        super().__init__(8, 5)

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs().max()
        return super().forward(x / scale)


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.3))
        self.register_buffer("shift", images(8), persistent=False)

    def forward(self, x):
        return x * self.scale + self.shift


# --- Running -------------------------------------------------------------------------------------------------------------


# torch's gradients have float(1 / 6) and float(1 / alpha), whatever the type.
BOUNDS = {"Hardsigmoid({})": 1e-8, "CELU({'alpha': 0.3})": 1e-8}


def run(name, compiler, folder):
    """('ok' | 'refused' | 'WRONG', what)."""
    make, inputs, data = CASES[name]
    torch.manual_seed(1)
    try:
        module = Harness(make(), inputs)
        before = {n: t.clone() for n, t in module.state_dict().items()}
        torch.manual_seed(2)
        outputs = module.outputs(*data)
        module.load_state_dict(before)
        w = images(*outputs.shape, seed=9) if outputs.dim() else torch.tensor([1.3])
        loss = module(w, *data)
        loss.backward()
    except Exception as error:
        return "skipped", f"torch: {type(error).__name__}: {str(error).splitlines()[0]}"
    gradients = {n: p.grad.to_dense() if p.grad is not None else torch.zeros_like(p) for n, p in module.named_parameters(remove_duplicate=False)}
    after = {n: t.clone() for n, t in module.state_dict().items()}
    module.load_state_dict(before)
    names = ["w"] + [f"data_{i}" for i in range(len(data))]
    path = folder / "model.onnx"
    try:
        scrimp_export.export(module, (w, *data), path, input_names=names)
    except scrimp_export.ExportError as error:
        return "refused", f"exporter: {error}"
    done = subprocess.run([compiler, path, "--optimizer", "sgd", "-o", folder / "train", "--workers", "1"], capture_output=True, text=True)
    notes = " ".join(l for l in done.stderr.splitlines())
    if done.returncode:
        return "refused", f"compiler: {notes}"
    flags = []
    for n, value in zip(names, (w, *data)):
        np.save(folder / f"{n}.npy", value.numpy())
        flags += ["--data", f"{n}={folder / n}.npy"]
    subprocess.run(["rm", "-rf", folder / "save", folder / "m.jsonl"])
    done = subprocess.run([folder / "train", *flags, "--steps", "1", "--lr", "1", "--no-shuffle", "--save", folder / "save", "--metrics", folder / "m.jsonl"],
                          capture_output=True, text=True)
    if done.returncode:
        return "refused", f"run: {done.stderr.strip()}"
    found_loss = json.loads((folder / "m.jsonl").read_text().splitlines()[0])["loss"]
    saved = load_file(str(next((folder / "save").glob("step-*")) / "model.safetensors"))
    worst, where = abs(found_loss - loss.item()) / max(1, abs(loss.item())), "loss"
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for n, start in before.items():
        if n not in saved:
            return "WRONG", f"'{n}' is not in the checkpoint; {notes}"
        if n in parameters:
            expected = start - gradients[n] if parameters[n].requires_grad else start
        else:
            expected = after[n]
        if saved[n].dtype != expected.dtype or saved[n].shape != expected.shape:
            return "WRONG", f"'{n}' is {saved[n].dtype} {tuple(saved[n].shape)}, not {expected.dtype} {tuple(expected.shape)}"
        scale = max(1.0, expected.double().abs().max().item() if expected.numel() else 1.0)
        off = (saved[n].double() - expected.double()).abs().max().item() / scale if expected.numel() else 0.0
        if not off <= worst:
            worst, where = off, n
    return ("ok" if worst < BOUNDS.get(name, 1e-9) else "WRONG"), f"{where} is off by {worst:.1e}; {notes}"


def main():
    compiler, folder, patterns = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name in CASES:
        if patterns and not any(fnmatch.fnmatch(name, p) or name == p for p in patterns):
            continue
        kind, what = run(name, compiler, folder)
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{kind} {name}: {what}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    sys.exit(1 if counts.get("WRONG") else 0)


if __name__ == "__main__":
    main()
