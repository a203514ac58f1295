#!/usr/bin/env python3
"""Makes gpt.onnx, the model of tools/quickstart: a GPT-2 of 4 layers, width 128, over bytes, without weights.

Run in the virtual environment of test/models/README.md. The executable draws the weights, counter based, from the
distributions that scrimp-export found: N(0, 0.08), about 1/sqrt(width), with which so small a model learns at once.
"""
import importlib.machinery
import importlib.util
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

here = os.path.dirname(os.path.abspath(__file__))
tool = os.path.join(here, "..", "..", "..", "tools", "scrimp-export")
loader = importlib.machinery.SourceFileLoader("scrimp_export", tool)
spec = importlib.util.spec_from_loader("scrimp_export", loader)
sys.dont_write_bytecode = True
scrimp_export = importlib.util.module_from_spec(spec)
loader.exec_module(scrimp_export)

torch.manual_seed(0)
config = GPT2Config(vocab_size=256, n_positions=128, n_embd=128, n_layer=4, n_head=4, use_cache=False, initializer_range=0.08,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = GPT2LMHeadModel(config).train()
ids = torch.randint(0, 256, (2, 128))
path = os.path.join(here, "gpt.onnx")
scrimp_export.export(model, (ids, ids), path, loss="cross_entropy", input_names=["ids", "labels"], dynamic_batch=True,
                     weights=False)
