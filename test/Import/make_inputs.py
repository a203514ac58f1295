#!/usr/bin/env python3
"""Makes test/Import/Inputs/*.onnx: small models, right and wrong, that the tests beside this file import.

    python make_inputs.py      # needs pip's onnx; the files are committed
"""
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent / "Inputs"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(name, nodes, inputs=(), outputs=(), initializers=(), opset=17, domains=(), functions=(), metadata=()):
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)
    for key, text in metadata:
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


def renamed(source, name):
    source.name = name
    return source


node = helper.make_node
W = tensor("w", np.arange(12, dtype=np.float32).reshape(3, 4) / 10)
LOSS = value("loss", [])


def malformed():
    total = node("ReduceSum", ["y"], ["loss"], "total", keepdims=0)
    save("cyclic", [node("Add", ["x", "b"], ["a"], "first"), node("Mul", ["a", "w"], ["b"], "second"),
                    node("ReduceSum", ["b"], ["loss"], "total", keepdims=0)], [value("x", [3, 4])], [LOSS], [W])
    save("duplicate-initializer", [node("Add", ["x", "w"], ["y"], "add"), total], [value("x", [3, 4])], [LOSS], [W, W])
    save("duplicate-value", [node("Add", ["x", "w"], ["y"], "first"), node("Mul", ["x", "w"], ["y"], "second"), total],
         [value("x", [3, 4])], [LOSS], [W])
    save("undefined-value", [node("Add", ["x", "nowhere"], ["y"], "add"), total], [value("x", [3, 4])], [LOSS], [W])
    save("undefined-output", [node("Add", ["x", "w"], ["y"], "add")], [value("x", [3, 4])], [LOSS], [W])
    save("unsupported-ops", [node("Frobnicate", ["x"], ["a"], "one"), node("Gelu", ["a"], ["b"], "two"),
                             node("FusedMatMul", ["b", "w"], ["c"], "three", domain="com.microsoft"),
                             node("Lonely", ["c"], ["y"], "four", domain="nobody"), total],
         [value("x", [3, 3])], [LOSS], [W], domains=["com.microsoft"])
    save("opset-9", [node("Add", ["x", "w"], ["y"], "add"), total], [value("x", [3, 4])], [LOSS], [W], opset=9)
    save("type", [node("Cast", ["x"], ["c"], "cast", to=FLOAT), node("Mul", ["c", "w"], ["y"], "mul"), total],
         [value("x", [3, 4], TensorProto.UINT8)], [LOSS], [W])
    save("symbolic", [node("MatMul", ["x", "w"], ["y"], "product"), total],
         [value("x", ["rows", 3])], [LOSS, value("y", ["rows", 4])], [W])
    save("contradiction", [node("MatMul", ["x", "w"], ["y"], "product"), total],
         [value("x", ["rows", 3])], [LOSS, value("y", [5, 4])], [W])
    save("no-loss", [node("MatMul", ["x", "w"], ["logits"], "product")], [value("x", [2, 3])],
         [value("logits", [2, 4])], [W])
    save("vector-loss", [node("MatMul", ["x", "w"], ["loss"], "product")], [value("x", [2, 3])],
         [helper.make_tensor_value_info("loss", FLOAT, None)], [W])
    save("nothing-trainable", [node("MatMul", ["x", "mask"], ["y"], "product"), total], [value("x", [2, 3])], [LOSS],
         [tensor("mask", np.ones((3, 4), np.float32))])
    save("gemm-rank-1", [node("Gemm", ["x", "w"], ["y"], "head/gemm"), total], [value("x", [3])], [LOSS], [W])
    save("layer-norm-scalar", [node("LayerNormalization", ["x", "s"], ["y"], "norm"), total], [value("x", [])], [LOSS],
         [tensor("s", np.ones(1, np.float32))])
    save("shapes", [node("Add", ["x", "w"], ["y"], "sum of both"), total], [value("x", [2, 5])], [LOSS], [W])
    save("data-shape", [node("Mul", ["x", "w"], ["z"]), node("Reshape", ["z", "s"], ["y"], "fold"), total],
         [value("x", [3, 4]), value("s", [2], INT64)], [LOSS], [W])
    outside = tensor("w", np.zeros((3, 4), np.float32))
    for name, where, offset in (("external-above", "../secret.bin", 0), ("external-short", "short.bin", 16)):
        outside.ClearField("raw_data")
        outside.data_location = TensorProto.EXTERNAL
        del outside.external_data[:]
        for key, text in (("location", where), ("offset", str(offset)), ("length", "48")):
            entry = outside.external_data.add()
            entry.key, entry.value = key, text
        save(name, [node("Add", ["x", "w"], ["y"], "add"), total], [value("x", [3, 4])], [LOSS], [outside])
    (HERE / "short.bin").write_bytes(bytes(20))
    # The right way: w begins at byte 16 of a file beside the model; doubles, so that they are told from floats.
    beside = tensor("w", np.zeros((3, 4), np.float64))
    beside.ClearField("raw_data")
    beside.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "weights.bin"), ("offset", "16"), ("length", "96")):
        entry = beside.external_data.add()
        entry.key, entry.value = key, text
    save("external", [total], [], [value("loss", [], TensorProto.DOUBLE)], [renamed(beside, "y")])
    (HERE / "weights.bin").write_bytes(bytes(16) + (np.arange(12) / 8).tobytes())
    loop = helper.make_function("local", "Again", ["a"], ["b"], [node("Again", ["a"], ["b"], domain="local")],
                                [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    save("endless-function", [node("Again", ["w"], ["y"], "call", domain="local"), total], [], [LOSS], [W],
         domains=["local"], functions=[loop])
    (HERE / "empty.onnx").write_bytes(b"")
    (HERE / "text.onnx").write_text("this is not a model\n")


def meanings():
    x = tensor("p", np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10)
    first = [tensor("zeros", np.zeros(3, np.int64)), tensor("ones", np.ones(3, np.int64))]
    for opset in (11, 13):
        save(f"softmax-{opset}", [node("Softmax", ["p"], ["y"], "softmax"), node("Slice", ["y", "zeros", "ones"], ["s"]),
                                  node("Reshape", ["s", "scalar"], ["loss"])], [], [LOSS],
             [x, *first, tensor("scalar", np.zeros(0, np.int64))], opset=opset)
    # [0,8,2] -> [4,2,-1] -> [0,0,4] with allowzero, beside a parameter.
    save("reshape-zeros", [node("Reshape", ["x", "s1"], ["a"]), node("Reshape", ["a", "s2"], ["b"], allowzero=1),
                           node("ReduceSum", ["b"], ["c"], keepdims=0), node("ReduceSum", ["w"], ["d"], keepdims=0),
                           node("Add", ["c", "d"], ["loss"])], [value("x", [0, 8, 2])], [LOSS, value("b", [0, 0, 4])],
         [W, tensor("s1", np.array([4, 2, -1], np.int64)), tensor("s2", np.array([0, 0, 4], np.int64))], opset=17)
    # Repeated and negative rows of w (4x2: i + 1), times 1, 10, 100.
    save("gather-negative", [node("Gather", ["g", "rows"], ["y"], "rows"), node("Mul", ["y", "scale"], ["z"]),
                             node("ReduceSum", ["z"], ["loss"], keepdims=0)], [], [LOSS],
         [tensor("g", np.arange(1, 9, dtype=np.float32).reshape(4, 2)), tensor("rows", np.array([1, -1, 1])),
          tensor("scale", np.array([[1], [10], [100]], np.float32))])
    for name, opset, extra in (("true", 13, [True]), ("false", 13, [False]), ("absent", 13, None), ("10", 11, None)):
        inputs = ["h"] if extra is None else ["h", "ratio", "mode"]
        initializers = [W] if extra is None else [W, tensor("ratio", np.float32(.25)), tensor("mode", np.array(extra[0]))]
        save(f"dropout-{name}", [node("Mul", ["x", "w"], ["h"]), node("Dropout", inputs, ["y"], "drop"),
                                 node("ReduceSum", ["y"], ["loss"], keepdims=0) if opset >= 13 else
                                 node("ReduceSum", ["y"], ["loss"], keepdims=0, axes=[0, 1])],
             [value("x", [3, 4])], [LOSS], initializers, opset=opset)
    save("dropout-parameter", [node("Dropout", ["w", "ratio", "mode"], ["h"], "drop"), node("Mul", ["x", "h"], ["y"]),
                               node("ReduceSum", ["y"], ["loss"], keepdims=0)], [value("x", [3, 4])], [LOSS],
         [W, tensor("ratio", np.float32(.25)), tensor("mode", np.array(True))])
    # A function with an attribute of its own, called twice; the second call takes the first's result.
    leaky = helper.make_function("local", "Leaky", ["a"], ["b"], [], [helper.make_opsetid("", 17)], ["slope"])
    inner = node("LeakyRelu", ["a"], ["t"], "inner")
    reference = inner.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    leaky.node.extend([inner, node("Neg", ["t"], ["b"], "negate")])
    save("function", [node("Leaky", ["w"], ["h"], "one", domain="local", slope=.5),
                      node("Leaky", ["h"], ["y"], "two", domain="local", slope=.25),
                      node("ReduceSum", ["y"], ["loss"], keepdims=0)], [], [LOSS], [W], domains=["local"], functions=[leaky])
    # Two LayerNorms in a row, one initializer, as torch's exporter writes it; a third with a name of its own, of equal value.
    norms = []
    for i, (source, target) in enumerate((("x", "a"), ("a", "b"))):
        n = node("LayerNormalization", [source, "norm_1.weight", "norm_1.bias"], [target], f"layer_norm_{i}")
        for key, text in (("name_scopes", f"['', 'norm_{i + 1}', 'layer_norm_{i}']"),
                          ("class_hierarchy", "['Model', 'torch.nn.modules.normalization.LayerNorm', 'aten.layer_norm.default']")):
            entry = n.metadata_props.add()
            entry.key, entry.value = f"pkg.torch.onnx.{key}", text
        norms.append(n)
    save("merged-norms", [*norms, node("LayerNormalization", ["b", "norm_3.weight", "norm_3.bias"], ["y"], "layer_norm_2"),
                          node("ReduceSum", ["y"], ["loss"], keepdims=0)], [value("x", [2, 8])], [LOSS],
         [tensor(f"norm_{i}.{leaf}", array) for i in (1, 3)
          for leaf, array in (("weight", np.ones(8, np.float32)), ("bias", np.zeros(8, np.float32)))])
    # bce and mse on a product; labels of images.
    save("losses", [node("MatMul", ["x", "w"], ["y"], "product"), node("Reshape", ["y", "image"], ["pixels"])],
         [value("x", [2, 3])], [value("y", [2, 4]), value("pixels", [2, 2, 1, 2])],
         [W, tensor("image", np.array([2, 2, 1, 2], np.int64))])


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    malformed()
    meanings()
