#!/usr/bin/env python3
"""Large transformers as ONNX files without weights, to be planned: as PyTorch exports them, parameters being inputs without values.

    python3 large.py 124M|350M|7.5B|70B|175B -o model.onnx [--length TOKENS]
    scrimp-plan model.onnx --data ids --data labels --dim batch=512 --world 64 --device h100 ...

The inputs `ids` and `labels` have a symbolic batch. Needs numpy alone.
"""
import argparse
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "EndToEnd"))

from onnx_writer import model, node, value  # noqa: E402


class Graph:
    def __init__(self):
        self.nodes, self.inputs, self.constants = [], [], {}

    def op(self, kind, inputs, output, scope, **attributes):
        self.nodes.append(node(kind, inputs, [output], name=f"/{scope}/{kind}_{output}", **attributes))
        return output

    def parameter(self, name, *shape):
        self.inputs.append(value(name, "f4", list(shape)))
        return name

    def linear(self, x, scope, rows, columns, bias):
        y = self.op("MatMul", [x, self.parameter(f"{scope}.weight", rows, columns)], f"{scope}.product", scope)
        return self.op("Add", [y, self.parameter(f"{scope}.bias", columns)], f"{scope}.out", scope) if bias else y

    def norm(self, x, scope, width, kind):
        names = [self.parameter(f"{scope}.{n}", width) for n in (("weight",) if kind == "RMSNormalization" else ("weight", "bias"))]
        return self.op(kind, [x, *names], f"{scope}.out", scope, axis=-1, epsilon=1e-5)

    def heads(self, x, count, length, size, scope):
        """[batch, length, count * size] as [batch, count, length, size]; a 0 keeps the batch."""
        self.constants[f"heads{count}"] = np.array([0, length, count, size], "i8")
        return self.op("Transpose", [self.op("Reshape", [x, f"heads{count}"], x + ".4", scope)], x + ".t", scope, perm=[0, 2, 1, 3])

    def attention(self, queries, keys, values, length, width, scope):
        y = self.op("Attention", [queries, keys, values], f"{scope}.y", scope, is_causal=1)
        self.constants["three"] = np.array([0, length, width], "i8")
        return self.op("Reshape", [self.op("Transpose", [y], f"{scope}.y.t", scope, perm=[0, 2, 1, 3]), "three"], f"{scope}.y.3", scope)

    def embed(self, scope, batch, length, width, vocabulary):
        self.inputs += [value(n, "i8", [batch, length]) for n in ("ids", "labels")]
        return self.op("Gather", [self.parameter(f"{scope}.weight", vocabulary, width), "ids"], "embedded", scope)

    def cross_entropy(self, logits, vocabulary):
        self.constants.update(rows=np.array([-1, vocabulary], "i8"), flat=np.array([-1], "i8"))
        rows, flat = self.op("Reshape", [logits, "rows"], "logits.rows", "loss"), self.op("Reshape", ["labels", "flat"], "labels.flat", "loss")
        self.op("SoftmaxCrossEntropyLoss", [rows, flat], "loss", "loss", reduction="mean")

    def finish(self):
        return model(self.nodes, self.inputs, [value("loss", "f4", [])], self.constants, opset=23)


def gpt(layers, batch, length, width, heads, vocabulary=None):
    """A GPT without dropout. Without a vocabulary its input is what is embedded already, `x`, and its loss a weighted mean."""
    graph = Graph()
    if vocabulary:
        x = graph.embed("wte", batch, length, width, vocabulary)
        x = graph.op("Add", [x, graph.parameter("wpe.weight", length, width)], "positioned", "wpe")
    else:
        graph.inputs.append(value("x", "f4", [batch, length, width]))
        x = graph.op("Mul", ["x", graph.parameter("scale", width)], "embedded", "embed")
    graph.constants["thirds"] = np.full(3, width, "i8")
    for i in range(layers):
        h = f"h.{i}"
        qkv = graph.linear(graph.norm(x, f"{h}.ln_1", width, "LayerNormalization"), f"{h}.attn.c_attn", width, 3 * width, True)
        parts = [f"{h}.{n}" for n in "qkv"]
        graph.nodes.append(node("Split", [qkv, "thirds"], parts, name=f"/{h}.attn/Split", axis=-1))
        parts = [graph.heads(n, heads, length, width // heads, f"{h}.attn") for n in parts]
        y = graph.attention(*parts, length, width, f"{h}.attn")
        x = graph.op("Add", [x, graph.linear(y, f"{h}.attn.c_proj", width, width, True)], f"{h}.middle", h)
        y = graph.linear(graph.norm(x, f"{h}.ln_2", width, "LayerNormalization"), f"{h}.mlp.c_fc", width, 4 * width, True)
        y = graph.op("Gelu", [y], f"{h}.gelu", f"{h}.mlp.act", approximate="tanh")
        x = graph.op("Add", [x, graph.linear(y, f"{h}.mlp.c_proj", 4 * width, width, True)], f"{h}.out", h)
    x = graph.norm(x, "ln_f", width, "LayerNormalization")
    if vocabulary:
        head = graph.op("Transpose", ["wte.weight"], "wte.transposed", "lm_head", perm=[1, 0])
        graph.cross_entropy(graph.op("MatMul", [x, head], "logits", "lm_head"), vocabulary)
    else:
        graph.op("Mul", [x, "x"], "weighted", "loss")
        graph.op("ReduceMean", ["weighted"], "loss", "loss", keepdims=0)
    return graph.finish()


def llama(layers, batch, length, width, heads, key_value_heads, inner, vocabulary):
    """A Llama: RMS norms, rotary positions, grouped-query attention, gated MLPs, no biases, a head of its own."""
    graph, size = Graph(), width // heads
    x = graph.embed("model.embed_tokens", batch, length, width, vocabulary)
    angles = np.outer(np.arange(length), 1 / 10000 ** (np.arange(0, size, 2) / size))
    for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
        graph.nodes.append(node("Constant", [], [name], value=np.concatenate([table, table], -1).astype("f4")))
    graph.constants["halves"] = np.full(2, size // 2, "i8")

    def rotate(y, scope):
        graph.nodes.append(node("Split", [y, "halves"], [y + ".1", y + ".2"], name=f"/{scope}/Split_{y}", axis=-1))
        other = graph.op("Concat", [graph.op("Neg", [y + ".2"], y + ".n", scope), y + ".1"], y + ".r", scope, axis=-1)
        return graph.op("Add", [graph.op("Mul", [y, "cos"], y + ".c", scope), graph.op("Mul", [other, "sin"], y + ".s", scope)], y + ".rotated", scope)

    for i in range(layers):
        h = f"model.layers.{i}"
        y, a = graph.norm(x, f"{h}.input_layernorm", width, "RMSNormalization"), f"{h}.self_attn"
        parts = [
            graph.heads(graph.linear(y, f"{a}.{n}", width, count * size, False), count, length, size, a)
            for n, count in (("q_proj", heads), ("k_proj", key_value_heads), ("v_proj", key_value_heads))
        ]
        y = graph.attention(rotate(parts[0], a), rotate(parts[1], a), parts[2], length, width, a)
        x = graph.op("Add", [x, graph.linear(y, f"{a}.o_proj", width, width, False)], f"{h}.middle", h)
        y, m = graph.norm(x, f"{h}.post_attention_layernorm", width, "RMSNormalization"), f"{h}.mlp"
        gate = graph.linear(y, f"{m}.gate_proj", width, inner, False)
        gate = graph.op("Mul", [gate, graph.op("Sigmoid", [gate], f"{m}.sigmoid", f"{m}.act_fn")], f"{m}.silu", f"{m}.act_fn")
        y = graph.op("Mul", [gate, graph.linear(y, f"{m}.up_proj", width, inner, False)], f"{m}.gated", m)
        x = graph.op("Add", [x, graph.linear(y, f"{m}.down_proj", inner, width, False)], f"{h}.out", h)
    x = graph.norm(x, "model.norm", width, "RMSNormalization")
    graph.cross_entropy(graph.linear(x, "lm_head", width, vocabulary, False), vocabulary)
    return graph.finish()


# The shapes of GPT-2's smallest, of a Llama of its next size, of GPT-3 175B (arXiv:2005.14165), Llama 2 70B (arXiv:2307.09288), and of ZeRO's example of 7.5B (arXiv:1910.02054).
MODELS = {
    "124M": lambda length: gpt(12, "batch", length or 1024, 768, 12, 50257),
    "350M": lambda length: llama(24, "batch", length or 1024, 1024, 16, 16, 2816, 32000),
    "7.5B": lambda length: gpt(36, "batch", length or 1024, 4096, 32, 50257),
    "70B": lambda length: llama(80, "batch", length or 4096, 8192, 64, 8, 28672, 32000),
    "175B": lambda length: gpt(96, "batch", length or 2048, 12288, 96, 50257),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--length", type=int, help="tokens of a sample (70B: 4096, 175B: 2048, others: 1024)")
    options = parser.parse_args()
    pathlib.Path(options.output).write_bytes(MODELS[options.model](options.length))
