#!/usr/bin/env python3
"""Tests of tools/scrimp-export. They run where PyTorch is importable and are skipped elsewhere (exit status 0)."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

try:
    import numpy as np
    import onnx
    import onnxscript  # noqa: F401
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from onnx.reference import ReferenceEvaluator
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "scrimp-export"
_loader = importlib.machinery.SourceFileLoader("scrimp_export", str(TOOL))
scrimp_export = importlib.util.module_from_spec(importlib.util.spec_from_loader("scrimp_export", _loader))
_loader.exec_module(scrimp_export)


class Net(nn.Module):
    """Everything the metadata tells of: a tie, a frozen parameter, a batch norm, dropout, a padding row, a buffer
    outside the state_dict, an unused parameter, and a scalar that float32 cannot hold."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 4, padding_idx=0)
        self.norm = nn.BatchNorm1d(4, eps=1e-3, momentum=0.2)
        self.drop = nn.Dropout(0.25)
        self.frozen = nn.Linear(4, 4)
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens)) * 0.3 + self.shift
        return self.head(self.drop(self.frozen(x)))


TOKENS, LABELS = torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([2, 3, 4, 5, 6, 7])


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "model.onnx")

    def export(self, module, inputs, **options):
        scrimp_export.export(module, inputs, self.path, **options)
        model = onnx.load(self.path)
        onnx.checker.check_model(model, full_check=True)
        return model, {p.key.removeprefix("scrimp."): p.value for p in model.metadata_props if p.key.startswith("scrimp.")}

    def refused(self, module, inputs=(TOKENS, LABELS), loss="cross_entropy", **options):
        """The message of the refusal, one line, and no file left behind."""
        with self.assertRaises(scrimp_export.ExportError) as caught:
            scrimp_export.export(module, inputs, self.path, loss=loss, **options)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def run_model(self, model, feeds):
        weights = load_file(str(self.path.with_suffix(".safetensors")))
        feeds = {**{i.name: weights[i.name].numpy() for i in model.graph.input if i.name in weights}, **feeds}
        return dict(zip((o.name for o in model.graph.output), ReferenceEvaluator(model).run(None, feeds)))


class Metadata(Case):
    def test_kinds_ties_modes_scalars(self):
        model, told = self.export(Net(), (TOKENS, LABELS), loss="cross_entropy")
        kinds = json.loads(told["parameters"])
        self.assertEqual(kinds["head.weight"], {"kind": "parameter"})
        self.assertEqual(kinds["frozen.weight"], {"kind": "frozen"})
        self.assertEqual(kinds["norm.running_mean"], {"kind": "buffer", "persistent": True})
        self.assertEqual(kinds["norm.num_batches_tracked"], {"kind": "buffer", "persistent": True, "used": False})
        self.assertEqual(kinds["shift"], {"kind": "buffer", "persistent": False})
        self.assertEqual(kinds["unused"], {"kind": "parameter", "used": False})
        self.assertEqual(json.loads(told["ties"]), {"embedding.weight": "head.weight"})
        modes = json.loads(told["modes"])
        self.assertEqual(modes["norm"], {"type": "batch_norm", "training": True, "momentum": 0.2, "eps": 1e-3, "track_running_stats": True})
        self.assertEqual(modes["drop"], {"type": "dropout", "training": True, "p": 0.25})
        (lookup,) = (n for n in model.graph.node if n.op_type == "Gather")
        self.assertEqual({p.key: p.value for p in lookup.metadata_props}["scrimp.padding_idx"], "0")
        # ONNX holds 0.001 and 0.3 as float32; the metadata has them exactly.
        scalars = json.loads(told["scalars"])
        self.assertIn(0.3, scalars.values())
        self.assertEqual([v for k, v in scalars.items() if k.endswith(":epsilon")], [1e-3])
        self.assertEqual((told["version"], told["loss"], told["weights"]), ("1", "loss", "model.safetensors"))

    def test_weights_are_inputs_and_return_to_the_module(self):
        module = Net()
        model, _ = self.export(module, (TOKENS, LABELS), loss="cross_entropy")
        self.assertEqual([i.name for i in model.graph.initializer], ["shift"])  # not in the state_dict
        inputs = [i.name for i in model.graph.input]
        self.assertEqual(inputs[:2], ["tokens", "labels"])
        self.assertEqual(set(inputs[2:]), set(module.state_dict()) - {"embedding.weight"})
        Net().load_state_dict(load_file(str(self.path.with_suffix(".safetensors"))), strict=True)

    def test_both_names_of_a_tie_are_written(self):
        self.export(Net(), (TOKENS, LABELS), loss="cross_entropy")
        weights = load_file(str(self.path.with_suffix(".safetensors")))
        self.assertTrue(torch.equal(weights["embedding.weight"], weights["head.weight"]))

    def test_training_forms_are_kept(self):
        model, _ = self.export(Net(), (TOKENS, LABELS), loss="cross_entropy")
        (norm,) = (n for n in model.graph.node if n.op_type == "BatchNormalization")
        self.assertEqual([a.i for a in norm.attribute if a.name == "training_mode"], [1])
        self.assertEqual(len(norm.output), 3)
        (drop,) = (n for n in model.graph.node if n.op_type == "Dropout")
        self.assertEqual(len(drop.input), 3)

    def test_evaluation_mode_is_kept(self):
        net = Net()
        net.norm.eval()
        model, told = self.export(net, (TOKENS, LABELS), loss="cross_entropy")
        (norm,) = (n for n in model.graph.node if n.op_type == "BatchNormalization")
        self.assertEqual(([a for a in norm.attribute if a.name == "training_mode"], len(norm.output)), ([], 1))
        self.assertFalse(json.loads(told["modes"])["norm"]["training"])

    def test_attention_dropout_keeps_its_mode(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(4, 4)

            def forward(self, x):
                q = self.project(x)
                return F.scaled_dot_product_attention(q, q, q, dropout_p=0.1)

        model, _ = self.export(Attention(), (torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4)), loss="mse")
        (drop,) = (n for n in model.graph.node if n.op_type == "Dropout")
        (mode,) = (n for n in model.graph.node if n.output[0] == drop.input[2])
        self.assertTrue(onnx.numpy_helper.to_array(mode.attribute[0].t))

    def test_module_is_left_as_it_was(self):
        module = Net()
        before = {n: t.clone() for n, t in module.state_dict().items()}
        self.export(module, (TOKENS, LABELS), loss="cross_entropy")
        self.assertTrue(module.training and "forward" not in module.__dict__)
        self.assertTrue(all(torch.equal(before[n], t) for n, t in module.state_dict().items()))


class Values(Case):
    """The exported graph computes what the module does, read by onnx's own evaluator."""

    def test_losses(self):
        x, net = torch.randn(6, 4), nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        classes, ignored = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, -100, 2, -100, 1, 2])
        for loss, target, expected in (
            ("cross_entropy", ignored, F.cross_entropy(net(x), ignored)),
            ("mse", torch.randn(6, 3), None),
            ("bce_with_logits", torch.rand(6, 3), None),
            (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])), classes, None),
            (lambda output, target: (output - target).abs().mean(), torch.randn(6, 3), None),
        ):
            with self.subTest(loss=str(loss)):
                if expected is None:
                    expected = {"mse": F.mse_loss, "bce_with_logits": F.binary_cross_entropy_with_logits}.get(str(loss), loss)(net(x), target)
                model, _ = self.export(net, (x, target), loss=loss, input_names=["x", "target"])
                found = self.run_model(model, {"x": x.numpy(), "target": target.numpy()})["loss"]
                self.assertLess(abs(float(found) - expected.item()), 1e-6)

    def test_sequence_labels(self):
        net, tokens = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7)), torch.randint(0, 7, (2, 5))
        labels = torch.randint(0, 7, (2, 5))
        model, _ = self.export(net, (tokens, labels), loss="cross_entropy")
        found = self.run_model(model, {"input": tokens.numpy(), "labels": labels.numpy()})
        self.assertEqual(found["logits"].shape, (2, 5, 7))
        self.assertLess(abs(found["loss"] - F.cross_entropy(net(tokens).reshape(-1, 7), labels.reshape(-1)).item()), 1e-6)

    def test_written_out(self):
        """What torch's exporter drops, or has no ONNX for, in terms of other calls."""
        classes, weight = torch.tensor([0, -100, 2, 1, 1, 2]), torch.tensor([1.0, 2.0, 0.5])
        image, bags = torch.randn(2, 3, 7, 6), torch.tensor([[1, 0, 2], [0, 0, 0], [3, 3, 1]])
        pools = [nn.AvgPool2d(3, divisor_override=5), nn.AvgPool2d((3, 2), 2, 1, ceil_mode=True, divisor_override=1), nn.AvgPool2d(4, 3, 1, True, False, 7)]
        cases = [(nn.Sequential(nn.Linear(4, 3)), torch.randn(6, 4), classes, nn.CrossEntropyLoss(w, label_smoothing=s, reduction=r))
                 for w in (None, weight) for s in (0.1, 1.0) for r in ("mean", "sum")]
        cases += [(nn.Sequential(nn.Linear(4, 3)), torch.randn(6, 4), torch.randn(6, 3).softmax(1), nn.CrossEntropyLoss(w, label_smoothing=0.2)) for w in (None, weight)]
        cases += [(nn.Sequential(nn.Conv2d(3, 3, 1), pool), image, torch.zeros(pool(image).shape), F.mse_loss) for pool in pools]
        cases += [(nn.EmbeddingBag(5, 4, mode=mode, padding_idx=padding), bags, torch.zeros(3, 4), F.mse_loss)
                  for mode in ("sum", "mean", "max") for padding in (None, 0, -2)]
        for module, x, target, loss in cases:
            with self.subTest(module=str(module), loss=str(loss)):
                model, _ = self.export(module, (x, target), loss=loss, input_names=["x", "target"])
                found = self.run_model(model, {"x": x.numpy(), "target": target.numpy()})["loss"]
                expected = loss(module(x), target).item()
                self.assertLess(abs(float(found) - expected), 1e-6 * max(1, abs(expected)))

    def test_dropout_between_recurrent_layers(self):
        """torch's exporter drops it. Without it the outputs are those of the module in evaluation, final states too."""
        def loss(output, target):
            states = output[1] if isinstance(output[1], tuple) else (output[1],)
            return (output[0] * target).sum() + sum((s * torch.arange(s.numel()).reshape(s.shape)).sum() for s in states)

        for kind, arguments in ((nn.LSTM, {"bidirectional": True}), (nn.GRU, {"bias": False, "batch_first": True}), (nn.RNN, {})):
            with self.subTest(kind=kind.__name__):
                module, x = kind(4, 3, num_layers=3, dropout=0.3, **arguments), torch.randn(5, 2, 4)
                target = torch.randn(module(x)[0].shape)
                model, _ = self.export(module, (x, target), loss=loss, input_names=["x", "target"])
                drops = [n for n in model.graph.node if n.op_type == "Dropout"]
                self.assertEqual([len(n.input) for n in drops], [3, 3])
                for node in drops:
                    del node.input[2:]
                found = self.run_model(model, {"x": x.numpy(), "target": target.numpy()})["loss"]
                self.assertLess(abs(float(found) - loss(module.eval()(x), target).item()), 1e-4)
        model, _ = self.export(nn.LSTM(4, 3, 2, dropout=0.3).eval(), torch.randn(5, 2, 4))
        self.assertNotIn("Dropout", [n.op_type for n in model.graph.node])

    def test_names_that_torch_gives_to_values(self):
        """Parameters named as inputs, outputs and values are keep their names and are told apart from them."""
        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                for name in ("x", "logits", "labels", "loss", "add", "mul", "linear"):
                    setattr(self, name, nn.Parameter(torch.randn(4)))
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x * self.x + self.logits) * self.labels + self.loss + self.add * self.mul + self.linear

        module, x, labels = Named(), torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 1, 2])
        model, told = self.export(module, (x, labels), loss="cross_entropy")
        self.assertEqual([i.name for i in model.graph.input][:2], ["x_input", "labels_input"])
        self.assertEqual(([o.name for o in model.graph.output], told["loss"]), (["logits_output", "loss_output"], "loss_output"))
        found = self.run_model(model, {"x_input": x.numpy(), "labels_input": labels.numpy()})["loss_output"]
        self.assertLess(abs(found - F.cross_entropy(module(x), labels).item()), 1e-6)

    def test_dynamic_batch(self):
        net = nn.Sequential(nn.Linear(4, 3))
        model, _ = self.export(net, (torch.randn(4, 4), torch.tensor([0, 1, 2, 0])), loss="cross_entropy", dynamic_batch=True)
        self.assertEqual([i.type.tensor_type.shape.dim[0].dim_param for i in model.graph.input[:2]], ["batch", "batch"])
        x, labels = torch.randn(7, 4), torch.randint(0, 3, (7,))
        found = self.run_model(model, {"input": x.numpy(), "labels": labels.numpy()})["loss"]
        self.assertLess(abs(found - F.cross_entropy(net(x), labels).item()), 1e-6)

    def test_loss_inside_the_module_and_keywords(self):
        class WithLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x=None, labels=None):
                logits = self.layer(x)
                return {"loss": F.cross_entropy(logits, labels), "logits": logits}

        net, x, labels = WithLoss(), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        model, told = self.export(net, {"x": x, "labels": labels})
        self.assertEqual(told["loss"], "loss")
        found = self.run_model(model, {"x": x.numpy(), "labels": labels.numpy()})
        self.assertLess(abs(found["loss"] - net(x, labels)["loss"].item()), 1e-6)

    def test_double_is_exact(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, dtype=torch.float64))

            def forward(self, x):
                return F.softplus(x * self.weight * 0.1, beta=1.7) / 3.3

        net, x = Scaled(), torch.randn(2, 4, dtype=torch.float64)
        target = torch.randn(2, 4, dtype=torch.float64)
        model, _ = self.export(net, (x, target), loss="mse")
        found = self.run_model(model, {"x": x.numpy(), "labels": target.numpy()})["output"]
        self.assertLess(np.abs(found - net(x).detach().numpy()).max(), 1e-15)

    def test_without_weights(self):
        _, told = self.export(Net(), (TOKENS, LABELS), loss="cross_entropy", weights=False)
        self.assertNotIn("weights", told)
        self.assertEqual(os.listdir(self.folder.name), ["model.onnx"])

    def test_buffers_keep_their_value_without_weights(self):
        class Positions(nn.Linear):
            def __init__(self):
                super().__init__(4, 3)
                self.register_buffer("table", torch.arange(4.0))
                self.register_buffer("ids", torch.arange(2))

            def forward(self, x):
                return super().forward(x + self.table)

        model, told = self.export(Positions(), (torch.randn(2, 4), torch.tensor([0, 1])), loss="cross_entropy", weights=False)
        values = {i.name: onnx.numpy_helper.to_array(i).tolist() for i in model.graph.initializer}
        self.assertEqual(values, {"table": [0, 1, 2, 3], "ids": [0, 1]})
        self.assertEqual(json.loads(told["parameters"])["table"], {"kind": "buffer", "persistent": True})

    def test_opset_23(self):
        model, _ = self.export(Net(), (TOKENS, LABELS), loss="cross_entropy", opset=23)
        self.assertEqual([o.version for o in model.opset_import if o.domain == ""], [23])


class Refusals(Case):
    def test_label_smoothing_outside_of_functional(self):
        message = self.refused(Net(), loss=lambda output, target: torch._C._nn.cross_entropy_loss(output, target, None, 1, -100, 0.2))
        self.assertIn("cross entropy with label_smoothing=0.2 (File", message)
        self.assertIn("would be exported without it", message)

    def test_what_a_module_does_besides(self):
        """Arguments that change gradients or weights, by the module's name and the way out."""
        def lookup(**arguments):
            return nn.Sequential(nn.Embedding(9, 4, **arguments), nn.Linear(4, 9))

        for arguments, found in (({"scale_grad_by_freq": True}, "a lookup with scale_grad_by_freq in module '0' (File"),
                                 ({"sparse": True}, "a lookup with sparse in module '0' (File"), ({"max_norm": 1.0}, "a lookup with max_norm in module '0' (File")):
            message = self.refused(lookup(**arguments))
            self.assertIn(found, message)
            self.assertIn("turn it off", message)
        bag = nn.Sequential(nn.EmbeddingBag(9, 4, scale_grad_by_freq=True), nn.Linear(4, 9))
        self.assertIn("a lookup with scale_grad_by_freq in module '0'", self.refused(bag, (TOKENS.reshape(3, 2), LABELS[:3])))
        norm = nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True), nn.Flatten())
        norm.append(nn.Linear(20, 3))
        message = self.refused(norm, (torch.randn(2, 4, 5), torch.tensor([0, 1])))
        self.assertIn("instance normalization that updates running statistics in module '0' (File", message)

    def test_hook_registered_while_running(self):
        class Doubled(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                y.register_hook(lambda gradient: gradient * 2)
                return y

        message = self.refused(Doubled(4, 4), (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertEqual(message, "a gradient hook is registered while the module runs, which ONNX cannot carry; remove it")

    def test_meta(self):
        message = self.refused(Net().to("meta"))
        self.assertEqual(message, "parameter 'unused' is on the meta device and has no value; load its weights before exporting")

    def test_data_dependent_control_flow(self):
        class Branch(nn.Linear):
            def forward(self, x):
                return super().forward(x) if x.sum() > 0 else x

        message = self.refused(Branch(4, 4), (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertRegex(message, r"^torch cannot export Branch: GuardOnDataDependentSymNode: Could not guard on data-dependent")

    def test_gradient_stopped_by_hand(self):
        class Detached(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                return y * y.detach()

        class NoGrad(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                with torch.no_grad():
                    scale = super().forward(x)
                return y * scale

        for kind in (Detached, NoGrad):
            self.assertIn("a gradient is stopped by hand", self.refused(kind(4, 4), (torch.randn(2, 4), torch.tensor([0, 1]))))

    def test_number_taken_out_of_a_trained_value(self):
        class Scaled(nn.Linear):
            def forward(self, x):
                y = super().forward(x)
                return y * y.abs().max().item()

        message = self.refused(Scaled(4, 3), (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])))
        self.assertRegex(message, r"^a gradient is stopped by hand \(item\) \(File .*; ONNX cannot say that")

    def test_attribute_that_changes(self):
        class Annealed(nn.Linear):
            temperature = 0

            def forward(self, x):
                self.temperature += 1
                return super().forward(x) / self.temperature

        module = nn.Sequential(Annealed(4, 3))
        module[0].temperature = 1
        with self.assertWarnsRegex(UserWarning, "attribute '0.temperature' changes while the module runs, from 1 to 2; what depends on it"):
            self.export(module, (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])), loss="cross_entropy")

    def test_state_dict_of_other_names(self):
        class Hooked(nn.Linear):
            def state_dict(self, *arguments, **options):
                return {f"inner.{n}": t for n, t in super().state_dict(*arguments, **options).items()}

        message = self.refused(Hooked(4, 3), (torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])))
        self.assertIn("parameter 'weight' is not in the module's state_dict under its own name", message)

    def test_no_grad_over_constants_is_fine(self):
        class Rotary(nn.Linear):
            def forward(self, x):
                with torch.no_grad():
                    angle = torch.arange(4.0) * 0.5
                return super().forward(x) * angle.cos()

        self.export(Rotary(4, 4), (torch.randn(2, 4), torch.tensor([0, 1])), loss="cross_entropy")

    def test_own_gradient(self):
        class Round(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.round()

            @staticmethod
            def backward(context, gradient):
                return gradient

        class Quantized(nn.Linear):
            def forward(self, x):
                return Round.apply(super().forward(x))

        message = self.refused(Quantized(4, 4), (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertEqual(message, "'Round' defines its own gradient (torch.autograd.Function), which ONNX cannot carry")

    def test_shared_memory_without_a_tie(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        net[1].weight = nn.Parameter(net[0].weight.data)
        message = self.refused(net, (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertEqual(message, "parameters '0.weight' and '1.weight' share memory but are not one tensor; assign the same nn.Parameter to both")

    def test_buffer_changed_while_running(self):
        class Counting(nn.Linear):
            def __init__(self):
                super().__init__(4, 4)
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                y = super().forward(x)
                self.mean.mul_(0.9).add_(0.1 * x.mean(0))
                return y - self.mean

        message = self.refused(Counting(), (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertEqual(message, "buffer 'mean' is changed while the module runs, and would be exported as a constant; compute it outside")

    def test_gradient_hook(self):
        net = nn.Linear(4, 4)
        net.weight.register_hook(lambda gradient: gradient * 2)
        self.assertIn("parameter 'weight' has a gradient hook", self.refused(net, (torch.randn(2, 4), torch.tensor([0, 1]))))

    def test_nothing_trainable(self):
        net = nn.Linear(4, 4).requires_grad_(False)
        self.assertIn("no parameter has requires_grad", self.refused(net, (torch.randn(2, 4), torch.tensor([0, 1]))))

    def test_loss_is_not_a_number(self):
        message = self.refused(Net(), loss=lambda output, target: F.cross_entropy(output, target, reduction="none"))
        self.assertIn("the loss is not one number but (6,)", message)

    def test_shapes_that_would_broadcast(self):
        message = self.refused(nn.Linear(4, 1), (torch.randn(6, 4), torch.randn(6)), loss="mse")
        self.assertEqual(message, "mse of an output of shape [6, 1] and a target of shape [6]; give the target the output's shape")

    def test_operator_torch_cannot_export(self):
        class Eigen(nn.Linear):
            def forward(self, x):
                return torch.linalg.eigvals(super().forward(x)).abs()

        message = self.refused(Eigen(4, 4), (torch.randn(4, 4), torch.randn(4)), loss="mse")
        self.assertRegex(message, r"^torch cannot export Eigen: .*linalg_eig")


class Command(Case):
    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, str(TOOL), *arguments], cwd=self.folder.name, capture_output=True, text=True)

    def test_factory_in_a_file(self):
        pathlib.Path(self.folder.name, "small.py").write_text(textwrap.dedent("""
            import torch
            def factory():
                return torch.nn.Linear(4, 3), (torch.randn(2, 4), torch.tensor([0, 1]))
            def frozen():
                return torch.nn.Linear(4, 3).requires_grad_(False), *factory()[1:]
        """))
        done = self.run_tool("small:factory", "-o", "model.onnx", "--loss", "cross_entropy")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual([o.name for o in onnx.load(self.path).graph.output], ["logits", "loss"])
        done = self.run_tool("small.py:frozen", "-o", "frozen.onnx", "--loss", "cross_entropy")
        self.assertEqual((done.returncode, done.stderr), (1, "scrimp-export: error: no parameter has requires_grad, so nothing could be trained\n"))
        done = self.run_tool("small:missing", "-o", "missing.onnx")
        self.assertEqual((done.returncode, done.stderr), (1, "scrimp-export: error: 'small' has no function 'missing'\n"))
        self.assertFalse(pathlib.Path(self.folder.name, "frozen.onnx").exists())


if __name__ == "__main__":
    unittest.main()
