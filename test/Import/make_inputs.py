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
W_VALUES = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
W = tensor("w", W_VALUES)
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


def traced(entry, scope="", call="", classes="", rules=""):
    """A node with the metadata that torch's dynamo exporter writes."""
    texts = {"pkg.torch.onnx.name_scopes": repr(["", *([scope] if scope else []), call.split(" ")[0].strip("%")]),
             "pkg.torch.onnx.class_hierarchy": repr(["Model", *([classes] if scope else []),
                 "aten." + call.split("aten.")[-1].split("]")[0]]),
             "pkg.torch.onnx.fx_node": call, "pkg.onnxscript.rewriter.rule_name": rules}
    for key, text in texts.items():
        if text:
            prop = entry.metadata_props.add()
            prop.key, prop.value = key, text
    return entry


def fx(name, op, *arguments):
    return f"%{name} : [num_users=1] = call_function[target=torch.ops.aten.{op}](args = ({', '.join(arguments)}), kwargs = {{}})"


def torch_forms():
    """What torch's exporter writes and does not mean: bounds of cosine_similarity's norms, doubles through f32, a boolean
    mask that is added, factors of a resize in f32."""
    double = TensorProto.DOUBLE
    clamp = fx("clamp_min", "clamp_min.Tensor", "%clone_1", "%scalar_tensor")
    scores = "scaled_dot_product_attention.default"
    marked = traced(node("Clip", ["a", "one"], ["b"]), "", fx("clamp_min_2", "clamp_min.Tensor", "%a", "%b"))
    prop = marked.metadata_props.add()
    prop.key, prop.value = "scrimp.straight_through", "1"
    save("torch-forms", [
        traced(node("Clip", ["w", "one"], ["a"]), "", clamp), marked,
        traced(node("Clip", ["b", "one"], ["c"]), "", fx("clamp_min_3", "clamp_min.Tensor", "%clone", "%other")),
        traced(node("Cast", ["c"], ["c32"], to=FLOAT), "", fx("celu", "celu.default", "%c", "0.5")),
        traced(node("Celu", ["c32"], ["d32"], alpha=.5), "", fx("celu", "celu.default", "%c", "0.5")),
        traced(node("Cast", ["d32"], ["d"], to=double), "", fx("celu", "celu.default", "%c", "0.5")),
        traced(node("Add", ["d", "mask"], ["e"]), "", fx("attention", scores, "%q", "%k", "%v", "%mask", "0.1")),
        node("Softmax", ["e"], ["f"]), node("ReduceSum", ["f"], ["loss"], keepdims=0)],
         [value("mask", [3, 4], TensorProto.BOOL)], [value("loss", [], double)],
         [tensor("w", np.zeros((3, 4))), tensor("one", np.array(1.))], opset=18)
    # 6 elements by 1.6 are 9; the last is the one at 8 / 1.6 = 5, which 8 / float(1.6) falls short of.
    factors = node("Constant", [], ["factors"], value_floats=[1.6])
    picked = [factors, node("Resize", ["x", "", "factors"], ["large"], mode="nearest", nearest_mode="floor", axes=[0],
                            coordinate_transformation_mode="asymmetric"),
              node("Mul", ["large", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    for name, exact in (("", ()), ("-exact", (("scrimp.scalars", '{"factors": [1.65]}'),))):
        save(f"resize-factor{name}", picked, [value("x", [6])], [LOSS], [tensor("w", np.ones(9, np.float32))],
             opset=18, metadata=exact)
    # .7 of 10 are 7, though float(.7) is less.
    save("resize-down", [node("Constant", [], ["factors"], value_floats=[.7]), *picked[1:]], [value("x", [10])], [LOSS],
         [tensor("w", np.ones(7, np.float32))], opset=18)


def signature_file(name, nodes, inputs, initializers, entries, folded=(), signature=None, outputs=(LOSS,), opset=18):
    """A model as torch's dynamo exporter writes it: entries are (FX name, kind, target)."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(initializers))
    lines = [f"{a}: {kind} target='{t}'" + (" persistent=True" if kind == "BUFFER" else "") for a, kind, t in entries]
    text = "\n".join(["", "# inputs", *lines, "x: USER_INPUT", "", "# outputs", "loss: USER_OUTPUT", ""])
    prop = graph.metadata_props.add()
    prop.key, prop.value = "pkg.torch.export.ExportedProgram.graph_signature", text if signature is None else signature
    shapes = {t.name: list(t.dims) for t in initializers}
    for result, origins in folded:
        info = value(result, shapes[result])
        prop = info.metadata_props.add()
        prop.key, prop.value = "pkg.onnxscript.optimizer.folded_from", repr(sorted(origins))
        graph.value_info.append(info)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10,
        producer_name="pytorch")
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


def signatures():
    """Files with the signature of torch.export: what trains is known, whatever the optimiser did."""
    linear = "torch.nn.modules.linear.Linear"
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    square = np.full((4, 4), .5, np.float32)
    total = node("ReduceSum", ["y"], ["loss"], "total", keepdims=0)
    entries = [("p_logit_scale", "PARAMETER", "logit_scale"), ("b_embed_scale", "BUFFER", "embed_scale"),
               ("c_lifted_tensor_0", "CONSTANT_TENSOR", "lifted_tensor_0"), ("p_first_weight", "PARAMETER",
                   "first.weight"),
               ("p_first_bias", "PARAMETER", "first.bias"), ("p_second_weight", "PARAMETER", "second.weight"),
               ("p_second_bias", "PARAMETER", "second.bias"), ("p_norm_weight", "PARAMETER", "norm.weight"),
               ("p_norm_bias", "PARAMETER", "norm.bias"), ("b_norm_running_mean", "BUFFER", "norm.running_mean"),
               ("b_norm_running_var", "BUFFER", "norm.running_var"), ("p_scale", "PARAMETER", "scale"),
               ("p_pos_weight", "PARAMETER", "pos.weight"), ("p_unused", "PARAMETER", "unused")]
    # val_1 stands for first.weight and second.weight, transposed and equal; second.bias was zero and is left out;
    # norm.weight also for running_var and 1 + scale, norm.bias for running_mean, logit_scale for a number of forward.
    nodes = [
        traced(node("Mul", ["x", "logit_scale"], ["mul"], "node_mul"), "", fx("mul", "mul.Tensor", "%x",
            "%p_logit_scale")),
        traced(node("Mul", ["mul", "embed_scale"], ["mul_1"], "node_mul_1"), "", fx("mul_1", "mul.Tensor", "%mul",
            "%b_embed_scale")),
        traced(node("Mul", ["mul_1", "logit_scale"], ["mul_8"], "node_double"), "", fx("mul_8", "mul.Tensor",
            "%mul_1", "2.0")),
        traced(node("Add", ["mul_8", "lifted_tensor_0"], ["add"], "node_add"), "", fx("add", "add.Tensor", "%mul_8",
            "%c_lifted_tensor_0")),
        traced(node("MatMul", ["add", "val_1"], ["val_2"], "node_MatMul_1"), "first", fx("linear", "linear.default",
            "%add", "%p_first_weight", "%p_first_bias"), linear),
        traced(node("Add", ["val_2", "first.bias"], ["linear"], "node_linear"), "first", fx("linear",
            "linear.default", "%add", "%p_first_weight", "%p_first_bias"), linear),
        traced(node("Gemm", ["linear", "val_1"], ["linear_1"], "node_Gemm_2"), "second", fx("linear_1",
            "linear.default", "%linear", "%p_second_weight", "%p_second_bias"), linear,
               "RemoveOptionalBiasFromGemm"),
        traced(node("BatchNormalization", ["linear_1", "norm.weight", "norm.bias", "norm.bias", "norm.weight"],
            ["getitem"], "node_norm", training_mode=0), "norm",
               fx("_native_batch_norm_legit_functional", "_native_batch_norm_legit_functional.default", "%linear_1",
                   "%p_norm_weight", "%p_norm_bias", "%b_norm_running_mean", "%b_norm_running_var", "True", "0.1",
                   "1e-05"),
               "torch.nn.modules.batchnorm.BatchNorm1d"),
        traced(node("Mul", ["getitem", "norm.weight"], ["mul_2"], "node_mul_2"), "", fx("mul_2", "mul.Tensor",
            "%getitem", "%add_9")),
        traced(node("Add", ["mul_2", "embedding"], ["add_2"], "node_add_2"), "", fx("add_2", "add.Tensor", "%mul_2",
            "%embedding")),
        traced(node("ScatterND", ["val_9", "rows", "add_2"], ["scattered"], "node_scatter"), "", fx("index_put",
            "index_put.default", "%zeros", "[%rows]", "%add_2")),
        traced(node("Mul", ["scattered", "exp"], ["y"], "node_mul_3"), "", fx("mul_3", "mul.Tensor", "%scattered",
            "%exp")), total]
    initializers = [tensor("logit_scale", np.float32(2)), tensor("embed_scale", np.float32(3)),
        tensor("lifted_tensor_0", zeros + .25),
                    tensor("val_1", square), tensor("first.bias", zeros + .125), tensor("norm.weight", ones),
                        tensor("norm.bias", zeros),
                    tensor("embedding", np.full((1, 4), .5, np.float32)), tensor("val_9", np.zeros((3, 4), np.float32)),
                    tensor("rows", np.array([[0], [2]], np.int64)), tensor("exp", zeros + .5)]
    folded = [("val_1", ["first.weight"]), ("embedding", ["pos.weight", "val_3"]), ("val_9", ["val_4", "val_5"]),
              ("exp", ["embed_scale", "lifted_tensor_0"])]
    x = [value("x", [2, 4])]
    signature_file("signature", nodes, x, initializers, entries, folded)
    signature_file("signature-cut", nodes, x, initializers, entries, folded, "\n# inputs\np_scale: PARAMETER target=\n")
    signature_file("signature-foreign", nodes, x, initializers, [("p_a", "PARAMETER", "a")], [])
    # Without values, the signature tells weights from data.
    signature_file("signature-inputs", [traced(node("MatMul", ["x", "w"], ["y"]), "", fx("y", "mm.default", "%x",
        "%p_w")), total],
                   [value("x", [2, 3]), value("w", [3, 4])], [], [("p_w", "PARAMETER", "w")])
    # One storage under two names: all calls read one of them, and the other's module reads it too.
    tied = [traced(node("Gather", ["head.weight", "x"], ["embedding"], "node_embedding"), "wte", fx("embedding",
        "embedding.default", "%p_head_weight", "%x"), "torch.nn.modules.sparse.Embedding"),
            traced(node("MatMul", ["embedding", "val_7"], ["y"], "node_linear"), "head", fx("linear",
                "linear.default", "%embedding", "%p_head_weight"), linear), total]
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    signature_file("signature-tied", tied, [value("x", [5], INT64)], [tensor("head.weight", weight), tensor("val_7",
        weight.T.copy())],
                   [("p_wte_weight", "PARAMETER", "wte.weight"), ("p_head_weight", "PARAMETER", "head.weight")],
                       [("val_7", ["head.weight"])])
    # Batch normalization in a Gemm: gone, and what is left holds the product.
    signature_file("signature-fused", [traced(node("Gemm", ["x", "lin.weight", "lin.weight_bias"], ["y"],
        "node_Gemm_9", transB=1), "norm",
                                              fx("batch_norm", "batch_norm.default", "%linear", "%p_norm_weight",
                                                  "%p_norm_bias", "%b_norm_running_mean", "%b_norm_running_var",
                                                  "False", "0.1", "1e-05", "True"),
                                              "torch.nn.modules.batchnorm.BatchNorm1d", "FuseBatchNormIntoGemm"),
                                                  total],
                   x, [tensor("lin.weight", square), tensor("lin.weight_bias", ones)],
                   [("p_lin_weight", "PARAMETER", "lin.weight"), ("p_norm_weight", "PARAMETER", "norm.weight"),
                       ("p_norm_bias", "PARAMETER", "norm.bias"),
                    ("b_norm_running_mean", "BUFFER", "norm.running_mean"), ("b_norm_running_var", "BUFFER",
                        "norm.running_var")])
    # Two norms of one input became one node; positions are a table of sines and cosines.
    norm = "torch.nn.modules.normalization.LayerNorm"
    angles = np.arange(2, dtype=np.float32)[:, None] * np.array([1, .5], np.float32)
    twins = [traced(node("Add", ["x", "positions.weight"], ["add"], "node_add"), "",
                    fx("add", "add.Tensor", "%x", "%p_positions_weight")),
             traced(node("LayerNormalization", ["add", "one.weight"], ["layer_norm"], "node_layer_norm"), "one",
                    fx("layer_norm", "layer_norm.default", "%add", "[4]", "%p_one_weight"), norm),
             traced(node("Mul", ["layer_norm", "first"], ["mul"], "node_mul"), "",
                    fx("mul", "mul.Tensor", "%layer_norm", "%p_first")),
             traced(node("Mul", ["layer_norm", "second"], ["mul_1"], "node_mul_1"), "",
                    fx("mul_1", "mul.Tensor", "%layer_norm_1", "%p_second")),
             traced(node("Add", ["mul", "mul_1"], ["y"], "node_add_1"), "", fx("y", "add.Tensor", "%mul", "%mul_1")), total]
    signature_file("signature-twins", twins, x,
                   [tensor("positions.weight", np.concatenate([np.sin(angles), np.cos(angles)], 1)),
                    tensor("one.weight", ones), tensor("first", ones * 2), tensor("second", ones * 3)],
                   [(f"p_{n.replace('.', '_')}", "PARAMETER", n)
                    for n in ("positions.weight", "one.weight", "two.weight", "first", "second")])
    # No signature: what use and values prove, and scalars that TorchScript wrote.
    graph = helper.make_graph(
        [node("Mul", ["x", "logit_scale"], ["a"], "scaled"), node("Mul", ["a", "val_2"], ["b"]),
         node("LSTM", ["b", "val_3", "val_4", "", "", "val_5", "val_5"], ["c"], "lstm", hidden_size=4),
         node("Reshape", ["c", "shape"], ["d"]), node("ScatterND", ["val_6", "rows", "d"], ["e"], "scatter"),
         node("Mul", ["positions", "slopes"], ["bias"]), node("Add", ["e", "bias"], ["scores"]), node("Softmax",
             ["scores"], ["f"]),
         node("SoftmaxCrossEntropyLoss", ["f", "labels", "criterion.weight"], ["loss"], "cross_entropy")],
        "graph", [value("x", [2, 1, 4]), value("positions", [3, 1]), value("labels", [3], INT64)], [LOSS],
        [tensor("logit_scale", np.float32(2)), tensor("val_2", np.float32(2)), tensor("val_3", np.full((1, 16, 4), .1,
            np.float32)),
         tensor("val_4", np.full((1, 16, 4), .2, np.float32)), tensor("val_5", np.zeros((1, 1, 4), np.float32)),
         tensor("shape", np.array([2, 4], np.int64)), tensor("val_6", np.zeros((3, 4), np.float32)), tensor("rows",
             np.array([[0], [2]], np.int64)),
         tensor("slopes", np.exp2(-2 * np.arange(1, 5, dtype=np.float32))), tensor("criterion.weight", np.array([1, 2,
             3, 4], np.float32))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="pytorch")
    (HERE / "roles.onnx").write_bytes(model.SerializeToString())
    graph = helper.make_graph([node("Mul", ["x", "w"], ["y"]), total], "graph", [value("x", [3, 4])], [LOSS],
        [renamed(tensor("w", W_VALUES), "inv_freq")])
    graph.node[0].input[1] = "inv_freq"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (HERE / "only-buffers.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    malformed()
    meanings()
    torch_forms()
    signatures()
