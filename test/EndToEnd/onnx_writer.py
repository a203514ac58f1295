"""Writes small ONNX files without any package: the protobuf wire format, and only the fields that tests need.

model([node("Relu", ["x"], ["y"])], inputs=[value("x", "f4", ["batch", 3])], outputs=[value("y", "f4", ["batch", 3])])
"""

import struct

import numpy as np

ELEMENT = {
    "f4": 1,
    "u1": 2,
    "i1": 3,
    "i2": 5,
    "i4": 6,
    "i8": 7,
    "string": 8,
    "bool": 9,
    "f2": 10,
    "f8": 11,
    "complex64": 14,
    "bf16": 16,
}


def _varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _int(field, number):
    return _varint(field << 3) + _varint(number)


def _bytes(field, data):
    data = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _float(field, number):
    return _varint(field << 3 | 5) + struct.pack("<f", number)


class BFloat16:
    """An initializer of bfloat16, given as bits (u2)."""

    def __init__(self, bits):
        self.bits = bits


def tensor(name, array, kind=None):
    """A TensorProto with raw data; `kind` where it is not the array's own."""
    kind = kind or ("bool" if array.dtype == bool else array.dtype.str[1:])
    return (
        b"".join(_int(1, d) for d in array.shape)
        + _int(2, ELEMENT[kind])
        + _bytes(8, name)
        + _bytes(9, np.ascontiguousarray(array).tobytes())
    )


class External:
    """An initializer whose data lie in another file, from its first byte on."""

    def __init__(self, kind, shape, location):
        self.kind, self.shape, self.location = kind, shape, location


def _external(name, source):
    return (
        b"".join(_int(1, d) for d in source.shape)
        + _int(2, ELEMENT[source.kind])
        + _bytes(8, name)
        + _bytes(13, _bytes(1, "location") + _bytes(2, source.location))
        + _int(14, 1)
    )


def _initializer(name, array):
    if isinstance(array, BFloat16):
        return tensor(name, array.bits, "bf16")
    return _external(name, array) if isinstance(array, External) else tensor(name, np.asarray(array))


def attribute(name, value):
    head = _bytes(1, name)
    if isinstance(value, bool) or isinstance(value, int):
        return head + _int(3, int(value)) + _int(20, 2)
    if isinstance(value, float):
        return head + _float(2, value) + _int(20, 1)
    if isinstance(value, str):
        return head + _bytes(4, value) + _int(20, 3)
    if isinstance(value, np.ndarray):
        return head + _bytes(5, tensor("", value)) + _int(20, 4)
    return head + b"".join(_int(8, v) for v in value) + _int(20, 7)


def node(op, inputs, outputs, name="", domain="", metadata=(), **attributes):
    return (
        b"".join(_bytes(1, i) for i in inputs)
        + b"".join(_bytes(2, o) for o in outputs)
        + _bytes(3, name or outputs[0])
        + _bytes(4, op)
        + b"".join(_bytes(5, attribute(n, v)) for n, v in attributes.items())
        + _bytes(7, domain)
        + b"".join(_bytes(9, _bytes(1, k) + _bytes(2, v)) for k, v in metadata)
    )


def value(name, kind, shape):
    """A ValueInfoProto; a dimension is a number or a name."""
    dims = b"".join(_bytes(1, _int(1, d) if isinstance(d, int) else _bytes(2, d)) for d in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, ELEMENT[kind]) + _bytes(2, dims)))


def function(name, inputs, outputs, nodes, domain="local", opset=17):
    """A FunctionProto; its nodes are of ai.onnx and of its own domain."""
    opsets = [("", opset), (domain, 1)]
    return (
        _bytes(1, name)
        + b"".join(_bytes(4, i) for i in inputs)
        + b"".join(_bytes(5, o) for o in outputs)
        + b"".join(_bytes(7, n) for n in nodes)
        + b"".join(_bytes(9, _bytes(1, d) + _int(2, v)) for d, v in opsets)
        + _bytes(10, domain)
    )


def model(nodes, inputs, outputs, initializers=None, opset=17, domains=(), functions=(), metadata=()):
    """A ModelProto. initializers: {name: array}; domains: further (domain, version) pairs; metadata: (key, text)."""
    graph = (
        b"".join(_bytes(1, n) for n in nodes)
        + _bytes(2, "graph")
        + b"".join(_bytes(5, _initializer(n, a)) for n, a in (initializers or {}).items())
        + b"".join(_bytes(11, v) for v in inputs)
        + b"".join(_bytes(12, v) for v in outputs)
    )
    opsets = [("", opset), *domains]
    return (
        _int(1, 8)
        + _bytes(7, graph)
        + b"".join(_bytes(8, _bytes(1, d) + _int(2, v)) for d, v in opsets)
        + b"".join(_bytes(14, _bytes(1, k) + _bytes(2, v)) for k, v in metadata)
        + b"".join(_bytes(25, f) for f in functions)
    )


def write(path, *arguments, **keywords):
    with open(path, "wb") as file:
        file.write(model(*arguments, **keywords))
    return path
