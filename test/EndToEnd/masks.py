"""Masks as exporters write them: what each family's attention computes, and what it becomes at a long sequence.

    python masks.py FOLDER [NAME ...]

A graph holds one attention for each family, with queries, keys and values that are parameters; the loss is the sum of
their outputs times the data. One step of SGD shows the gradients, which NumPy computes from the mask written out.
"""

import re

import numpy as np

import harness
from harness import check, compile_model, run, train_steps, weights
from onnx_writer import model, node, value

LOWEST = np.finfo("f4").min.astype("f8")
HEADS, WIDTH, WINDOW, BUCKETS, REACH = 2, 4, 5, 8, 16


class Graph:
    """Nodes and initializers under construction; `add` returns the name of the result."""

    def __init__(self, length, batch, kind):
        self.length, self.batch, self.kind = length, batch, kind
        self.nodes, self.initializers, self.count = [], {}, 0

    def add(self, op, *inputs, **attributes):
        self.count += 1
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        self.nodes.append(node(op, names, [f"t{self.count}"], **attributes))
        return f"t{self.count}"

    def constant(self, array, name=None):
        name = name or f"c{len(self.initializers)}"
        self.initializers[name] = np.asarray(array)
        return name

    def positions(self, axes, start=0):
        """0, 1, 2, ... along the one dimension of rank len(axes) + 1 that is not in `axes`."""
        i8 = lambda n: np.array(n, "i8")
        numbers = self.add("Range", i8(start), i8(start + self.length), i8(1))
        return self.add("Unsqueeze", numbers, np.array(axes, "i8"))

    def below(self, condition, low):
        """The additive mask that is 0 where `condition` holds."""
        return self.add("Where", condition, np.array(0, self.kind), np.array(low, self.kind))


# Each family adds its nodes to `g` and returns the masks that are added to the scores, in order. `expected(...)` of the
# same name below writes them out; the third is what the compiler makes of them at a long sequence.


def causal(g):
    """Llama: positions compared, as scaled_dot_product_attention is written out."""
    return [g.below(g.add("LessOrEqual", g.positions([0, 1, 2]), g.positions([0, 1, 3])), -np.inf)]


def stored(g):
    """GPT-2: a triangle in the file, sliced; what it hides is replaced by the lowest number."""
    triangle = np.tril(np.ones((1, 1, g.length + 3, g.length + 3), bool))
    ends = np.array([g.length, g.length], "i8")
    seen = g.add("Slice", triangle, np.array([0, 0], "i8"), ends, np.array([2, 3], "i8"))
    return [g.below(seen, LOWEST)]


def triangular(g):
    """torch.nn.Transformer: a Trilu of -inf."""
    square = g.add("Expand", np.array(-np.inf, g.kind), np.array([g.length, g.length], "i8"))
    return [g.add("Trilu", square, np.array(1, "i8"), upper=1)]


def window(g):
    """Mistral: causal, and no key further away than the window."""
    query, key = g.positions([0, 1, 3]), g.positions([0, 1, 2])
    near = g.add("Greater", key, g.add("Sub", query, np.array(WINDOW, "i8")))
    both = g.add("And", g.add("And", np.array(True), near), g.add("LessOrEqual", key, query))
    spread = g.add("Expand", both, np.array([g.batch, 1, g.length, g.length], "i8"))
    return [g.below(spread, -np.inf)]


def local(g):
    """ModernBERT: keys on both sides, by their distance."""
    distance = g.add("Abs", g.add("Sub", g.positions([1]), g.positions([0])))
    return [g.below(g.add("LessOrEqual", distance, np.array(WINDOW, "i8")), -np.inf)]


def slopes(g):
    return np.array([2.0 ** -(h + 1) for h in range(HEADS)]).reshape(1, HEADS, 1, 1).astype(g.kind)


def alibi(g):
    """Bloom: slopes times positions of keys, and a causal mask of the lowest number."""
    numbers = g.add("Cast", g.positions([0, 1, 2]), to={"f4": 1, "f8": 11}[g.kind])
    seen = g.add("LessOrEqual", g.positions([0, 1, 2]), g.positions([0, 1, 3]))
    return [g.add("Mul", slopes(g), numbers), g.below(seen, LOWEST)]


def distances(g):
    """ALiBi by distance, on both sides of the query."""
    distance = g.add("Abs", g.add("Sub", g.positions([0, 1, 2]), g.positions([0, 1, 3])))
    numbers = g.add("Neg", g.add("Cast", distance, to={"f4": 1, "f8": 11}[g.kind]))
    return [g.add("Mul", numbers, slopes(g))]


def relative(g):
    """T5: a learned table, looked up by buckets of the distance."""
    relative = g.add("Sub", g.positions([0]), g.positions([1]))
    half, exact = BUCKETS // 2, BUCKETS // 4
    i8 = lambda n: np.array(n, "i8")
    side = g.add("Mul", g.add("Cast", g.add("Greater", relative, i8(0)), to=7), i8(half))
    away = g.add("Abs", relative)
    ratio = g.add("Div", g.add("Cast", away, to=1), np.array(exact, "f4"))
    large = g.add("Div", g.add("Log", ratio), np.array(np.log(REACH / exact), "f4"))
    large = g.add("Cast", g.add("Mul", large, np.array(half - exact, "f4")), to=7)
    large = g.add("Min", g.add("Add", large, i8(exact)), i8(half - 1))
    bucket = g.add("Add", g.add("Where", g.add("Less", away, i8(exact)), away, large), side)
    table = g.constant(np.sin(np.arange(BUCKETS * HEADS)).reshape(BUCKETS, HEADS).astype(g.kind), "relative.table")
    values = g.add("Transpose", g.add("Gather", table, bucket, axis=0), perm=[2, 0, 1])
    return [g.add("Unsqueeze", values, np.array([0], "i8"))]


def padded(g):
    """BERT: the data tell which keys there are, for each sample; spread over the queries."""
    seen = g.add("Cast", g.add("Unsqueeze", "attention_mask", np.array([1, 2], "i8")), to=9)
    spread = g.add("Expand", seen, np.array([g.batch, 1, g.length, g.length], "i8"))
    return [g.below(spread, -np.inf)]


def padded_causal(g):
    """The two together, in one condition."""
    seen = g.add("Cast", g.add("Unsqueeze", "attention_mask", np.array([1, 2], "i8")), to=9)
    earlier = g.add("LessOrEqual", g.positions([0, 1, 2]), g.positions([0, 1, 3]))
    return [g.below(g.add("And", earlier, seen), -np.inf)]


def chunked(g):
    """Llama 4: a query sees the keys of its own chunk."""
    query, key = (g.add("Div", g.positions(axes), np.array(WINDOW, "i8")) for axes in ([0, 1, 3], [0, 1, 2]))
    earlier = g.add("LessOrEqual", g.positions([0, 1, 2]), g.positions([0, 1, 3]))
    return [g.below(g.add("And", g.add("Equal", query, key), earlier), -np.inf)]


def buckets(d):
    """T5's buckets of distances, in single precision as the graph computes them."""
    half, exact = BUCKETS // 2, BUCKETS // 4
    away = np.abs(d)
    with np.errstate(divide="ignore"):
        large = np.log(away.astype("f4") / np.float32(exact)) / np.float32(np.log(REACH / exact)) * np.float32(half - exact)
    large = np.minimum(np.where(away < exact, 0, large).astype("i8") + exact, half - 1)
    return np.where(away < exact, away, large) + half * (d > 0)


def expected(family, length, attention_mask):
    """The mask [batch or 1, heads or 1, length, length] that is added to the scores."""
    i, j = np.arange(length)[:, None], np.arange(length)[None, :]
    d, hidden = j - i, lambda seen: np.where(seen, 0, -np.inf)
    keys = attention_mask[:, None, None, :] != 0
    slope = np.array([2.0 ** -(h + 1) for h in range(HEADS)])[:, None, None]
    table = np.sin(np.arange(BUCKETS * HEADS)).reshape(BUCKETS, HEADS)
    mask = {
        "window": lambda: hidden((d <= 0) & (d > -WINDOW)),
        "local": lambda: hidden(np.abs(d) <= WINDOW),
        "alibi": lambda: slope * j + hidden(d <= 0),
        "distances": lambda: slope * -np.abs(d),
        "relative": lambda: np.moveaxis(table[buckets(d)], 2, 0),
        "padded": lambda: hidden(keys & (d == d)),
        "padded_causal": lambda: hidden(keys & (d <= 0)),
        "chunked": lambda: hidden((i // WINDOW == j // WINDOW) & (d <= 0)),
    }.get(family, lambda: hidden(d <= 0))()
    return np.broadcast_to(mask, (len(attention_mask), HEADS, length, length))


FAMILIES = (causal, stored, triangular, window, local, alibi, distances, relative, padded, padded_causal, chunked)


def first_values(seed, shape):
    return np.sin(np.arange(np.prod(shape)) * (0.7 + 0.1 * seed)).reshape(shape)


def build(length, batch, kind, families=FAMILIES):
    """The file's bytes. Parameters are FAMILY.q, .k, .v and relative.table."""
    g = Graph(length, batch, kind)
    losses = []
    for n, family in enumerate(families):
        shape = (batch, HEADS, length, WIDTH)
        names = [g.constant(first_values(3 * n + i, shape).astype(kind), f"{family.__name__}.{p}") for i, p in enumerate("qkv")]
        scores = g.add("MatMul", names[0], g.add("Transpose", names[1], perm=[0, 1, 3, 2]))
        scores = g.add("Mul", scores, np.array(0.5, kind))
        for mask in family(g):
            scores = g.add("Add", scores, mask)
        out = g.add("MatMul", g.add("Softmax", scores, axis=-1), names[2])
        losses.append(g.add("ReduceSum", g.add("Mul", out, "x"), keepdims=0))
    g.nodes.append(node("Sum", losses, ["loss"]))
    inputs = [value("x", kind, [batch, HEADS, length, WIDTH]), value("attention_mask", "i8", [batch, length])]
    return model(g.nodes, inputs, [value("loss", kind, [])], g.initializers)


def gradients(q, k, v, mask, x):
    """The output's product with x, and what it gives q, k, v and the scores."""
    scores = 0.5 * q @ np.swapaxes(k, 2, 3) + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = x @ np.swapaxes(v, 2, 3)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return (p @ v * x).sum(), 0.5 * ds @ k, 0.5 * np.swapaxes(ds, 2, 3) @ q, np.swapaxes(p, 2, 3) @ x, ds


def values(folder):
    """Loss and gradients of every family in fp64 are those of the mask written out."""
    length, batch = 19, 2
    (folder / "masks.onnx").write_bytes(build(length, batch, "f8"))
    data = ["--data", "x", "--data", "attention_mask"]
    compile_model(folder / "masks.onnx", folder / "train", "--optimizer", "sgd", *data)
    x = np.cos(np.arange(batch * HEADS * length * WIDTH) * 1.3).reshape(batch, HEADS, length, WIDTH)
    attention_mask = (np.arange(length)[None, :] < np.array([[length], [length - 6]])).astype("i8")
    np.save(folder / "x.npy", x)
    np.save(folder / "attention_mask.npy", attention_mask)
    files = [f for n in ("x", "attention_mask") for f in ("--data", f"{n}={folder}/{n}.npy")]
    steps = train_steps(
        folder / "train", folder / "steps.jsonl", *files, "--steps", "1", "--lr", "1", "--no-shuffle", "--save", folder / "save"
    )
    final, loss = weights(folder / "save"), 0.0

    def near(name, start, gradient):
        error = np.abs(start - final[name] - gradient).max()
        check(error <= 1e-12, f"the gradient of {name} is off by {error:.3g}")

    for n, family in enumerate(FAMILIES):
        name = family.__name__
        q, k, v = (first_values(3 * n + i, x.shape) for i in range(3))
        part, *grads, ds = gradients(q, k, v, expected(name, length, attention_mask), x)
        loss += part
        for p, start, gradient in zip("qkv", (q, k, v), grads):
            near(f"{name}.{p}", start, gradient)
        if name == "relative":
            d, table = np.arange(length)[None, :] - np.arange(length)[:, None], np.zeros((BUCKETS, HEADS))
            for h in range(HEADS):
                np.add.at(table[:, h], buckets(d), ds[:, h].sum(0))
            near("relative.table", np.sin(np.arange(BUCKETS * HEADS)).reshape(BUCKETS, HEADS), table)
    check(abs(steps[0]["loss"] - loss) <= 1e-12 * abs(loss), f"the loss is {steps[0]['loss']}, expected {loss}")


# What the attention of each family says at a long sequence: no mask has queries and keys.
FORMS = {
    "causal": ["causal"],
    "stored": ["causal"],
    "triangular": ["causal"],
    "window": ["causal", "window = array<i64: 4, 0>"],
    "local": ["window = array<i64: 5, 5>"],
    "alibi": ["causal", "tensor<1x2x1x{T}xf32>"],
    "distances": ["tensor<2x{L}xf32>"],
    "relative": ["tensor<2x{L}xf32>"],
    "padded": ["tensor<1x1x1x{T}xi1>"],
    "padded_causal": ["causal", "tensor<1x1x1x{T}xi1>"],
    "chunked": ["causal", "segments"],
}


def forms(folder):
    """At 16,384 positions every family keeps its form, nothing holds queries times keys, and it takes seconds."""
    length = 1 << 14
    families = [f for f in FAMILIES if f is not stored]  # a triangle of 256 MiB: at 2,048 below
    for name, length, chosen in (("long", length, families), ("stored", 1 << 11, [stored])):
        (folder / f"{name}.onnx").write_bytes(build(length, 1, "f4", chosen))
        data = ["--data", "x", "--data", "attention_mask"]
        run(["scrimp-compile", folder / f"{name}.onnx", *data, "--emit", "mlir", "-o", folder / f"{name}.mlir"])
        text = (folder / f"{name}.mlir").read_text()
        train = text[text.index("@train") :].split("func.func @eval")[0]
        square = re.search(rf"tensor<[0-9x]*{length}x{length}x[a-z0-9]+>", train)
        check(not square, f"the program has a {square and square.group()}")
        ops = re.findall(r"scrimp\.attention %.*", train)
        check(len(ops) == len(chosen), f"found {len(ops)} attentions, expected {len(chosen)}")
        for family in chosen:
            wanted = [w.format(T=length, L=2 * length - 1) for w in FORMS[family.__name__]]
            match = [op for op in ops if all(w in op for w in wanted) and ("causal" in op) == ("causal" in wanted)]
            check(match, f"no attention of {family.__name__} has {wanted}:\n" + "\n".join(ops))


if __name__ == "__main__":
    harness.main([values, forms])
