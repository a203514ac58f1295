"""The models under test: real classes in small configurations, with their data. Used by make_models.py."""
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Model:
    """build(attention) makes the module with PyTorch's own initial values; data() the arrays of `batches` batches.

    inputs: the module's data inputs in the order of its forward; the last array of data() is the label.
    """
    name: str
    build: Callable
    data: Callable
    inputs: tuple
    batch: int
    weights: bool = True        # False: too large to commit, both sides use initial_values.py
    torchscript: bool = True    # False: torch's TorchScript exporter cannot export it
    attention: tuple = ("default",)  # implementations whose fp64 trajectories must agree
    fresh: bool = False         # also export by dynamo's defaults with untouched initial values
    trajectory: bool = True
    chaotic: bool = False       # in float32 the trajectory depends on every rounding
    label: str = "labels"


def _images(batches, batch, channels, size, classes, seed):
    """Sixteenths, so that they compress. The class tints the image, so that there is something to learn."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, batches * batch)
    pixels = random.normal(size=(batches * batch, channels, size, size)) + 0.1 * (labels - classes / 2)[:, None, None, None]
    return (np.round(pixels * 16) / 16).astype(np.float32), labels.astype(np.int64)


def _tokens(batches, batch, length, vocabulary, seed):
    """A noisy walk over the vocabulary; labels are the next tokens, a few of them ignored (-100)."""
    random = np.random.default_rng(seed)
    steps = random.choice([1, 1, 1, 2, 5], size=(batches * batch, length + 1))
    walk = (random.integers(1, vocabulary, (batches * batch, 1)) + np.cumsum(steps, 1)) % vocabulary
    labels = walk[:, 1:].copy()
    labels[random.random(labels.shape) < 0.05] = -100
    return walk[:, :-1].astype(np.int64), labels.astype(np.int64)


# --- Vision -------------------------------------------------------------------------------------------------------------


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 60)
        self.fc2 = nn.Linear(60, 42)
        self.fc3 = nn.Linear(42, 10)

    def forward(self, image):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = nn.functional.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def _mlp(attention):
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10))


def _mlp_data():
    random = np.random.default_rng(1)
    labels = random.integers(0, 10, 32)
    x = random.normal(size=(32, 16)) + np.eye(16)[labels] * 2
    return {"x": (np.round(x * 64) / 64).astype(np.float32), "labels": labels.astype(np.int64)}


def _dropout(attention):
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))


def _resnet18(attention):
    import torchvision
    return torchvision.models.resnet18(num_classes=10)


def _vit(attention):
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(
        image_size=32, patch_size=8, num_channels=3, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, num_labels=10, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation=attention))


# --- Language -----------------------------------------------------------------------------------------------------------


def _gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=160, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation=attention))


def _llama(attention):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=160, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.0, use_cache=False, bos_token_id=0,
        eos_token_id=0, tie_word_embeddings=False, attn_implementation=attention))


def _bert(attention):
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig(
        vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, use_cache=False,
        attn_implementation=attention))


def _bert_data():
    """Sequences of several lengths, padded with 0; a fifth of the tokens masked (3), the others' labels ignored."""
    tokens, _ = _tokens(4, 4, 16, 150, 4)
    random = np.random.default_rng(5)
    tokens += 5
    lengths = random.integers(9, 17, len(tokens))
    mask = (np.arange(16)[None] < lengths[:, None]).astype(np.int64)
    chosen = (random.random(tokens.shape) < 0.2) & (mask == 1)
    chosen[:, 1] = True
    labels = np.where(chosen, tokens, -100)
    return {"input_ids": np.where(chosen, 3, tokens) * mask, "attention_mask": mask, "labels": labels}


MODELS = {m.name: m for m in (
    Model("mlp", _mlp, _mlp_data, ("x",), 8),
    Model("dropout", _dropout, _mlp_data, ("x",), 8, trajectory=False),
    Model("lenet", lambda attention: LeNet(), lambda: dict(zip(("image", "labels"), _images(4, 4, 1, 28, 10, 2))), ("image",), 4),
    Model("resnet18", _resnet18, lambda: dict(zip(("image", "labels"), _images(2, 16, 3, 64, 10, 3))), ("image",), 16, weights=False,
          chaotic=True),
    Model("gpt2", _gpt2, lambda: dict(zip(("input_ids", "labels"), _tokens(4, 4, 16, 160, 6))), ("input_ids",), 4,
          attention=("sdpa", "eager"), fresh=True),
    Model("llama", _llama, lambda: dict(zip(("input_ids", "labels"), _tokens(4, 4, 16, 160, 7))), ("input_ids",), 4,
          attention=("sdpa", "eager"), fresh=True),
    Model("bert", _bert, _bert_data, ("input_ids", "attention_mask"), 4, attention=("sdpa", "eager"), fresh=True),
    Model("vit", _vit, lambda: dict(zip(("pixel_values", "labels"), _images(4, 4, 3, 32, 10, 8))), ("pixel_values",), 4,
          attention=("sdpa", "eager"), fresh=True),
)}
