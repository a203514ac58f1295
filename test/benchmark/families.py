#!/usr/bin/env python3
"""What becomes of the parameters of `transformers` families and torchvision's classifiers on their way through exporters.

    python test/benchmark/families.py [--cache DIR] [--bin build/bin] [--no-export] [-v] [NAME ...]

Tiny configurations with random weights (no network), each exported by `scrimp-export`, by
`torch.onnx.export(dynamo=True)` and by the same with `optimize=False`, then listed by `scrimp-plan --parameters` and
compared with the module's own parameters and buffers. Every parameter must be trained under its name with its shape (or under the
name it is tied to), or be named in a warning; no buffer may be trained; no two parameters may be one. Prints one line
for each violation and a table; exit status 1 if there is any. Files that exist in the cache are not exported again.

Needs torch 2.15, torchvision, transformers, onnx, onnxscript, safetensors; fnmatch patterns choose among the names.
"""
import argparse
import collections
import contextlib
import fnmatch
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUTES = ("scrimp", "dynamo", "dynamo-raw")
EXPORT_SECONDS, PLAN_SECONDS = 300, 120

# --- Models -----------------------------------------------------------------------------------------------------------

IDS = {"input_ids": ("int", (2, 8))}
IMAGE = {"pixel_values": ("float", (2, 3, 32, 32))}
AUDIO = {"input_values": ("float", (2, 800))}
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=96,
             max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GROUPED = dict(SMALL, num_key_value_heads=2)
HEADS = dict(GROUPED, head_dim=8)
SEQ2SEQ = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
               encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=96, max_position_embeddings=32, pad_token_id=0,
               bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
BOTH = {"input_ids": ("int", (2, 8)), "decoder_input_ids": ("int", (2, 8))}
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32,
              patch_size=8)
STAGES = dict(image_size=32)

# name: (configuration class, model class, arguments of the configuration, inputs)
FAMILIES = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=96, n_positions=32), IDS),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoForCausalLM", dict(SMALL, num_layers=2, num_heads=4,
        attention_types=[[["global", "local"], 1]], window_size=4), IDS),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SMALL, IDS),
    "gptj": ("GPTJConfig", "GPTJForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=96, n_positions=32,
        rotary_dim=4), IDS),
    "gpt_bigcode": ("GPTBigCodeConfig", "GPTBigCodeForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=96,
        n_positions=32), IDS),
    "codegen": ("CodeGenConfig", "CodeGenForCausalLM", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=96,
        n_positions=32, rotary_dim=4), IDS),
    "opt": ("OPTConfig", "OPTForCausalLM", dict(SMALL, ffn_dim=48, word_embed_proj_dim=32), IDS),
    "bloom": ("BloomConfig", "BloomForCausalLM", dict(SMALL, n_layer=2, n_head=4), IDS),
    "mpt": ("MptConfig", "MptForCausalLM", dict(d_model=32, n_heads=4, n_layers=2, vocab_size=96, max_seq_len=32), IDS),
    "falcon": ("FalconConfig", "FalconForCausalLM", dict(SMALL, alibi=False), IDS),
    "llama": ("LlamaConfig", "LlamaForCausalLM", GROUPED, IDS),
    "mistral": ("MistralConfig", "MistralForCausalLM", GROUPED, IDS),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED, IDS),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", HEADS, IDS),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", HEADS, IDS),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", dict(HEADS, sliding_window=4, query_pre_attn_scalar=8), IDS),
    "phi": ("PhiConfig", "PhiForCausalLM", SMALL, IDS),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", GROUPED, IDS),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", GROUPED, IDS),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", GROUPED, IDS),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", GROUPED, IDS),
    "granite": ("GraniteConfig", "GraniteForCausalLM", GROUPED, IDS),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", GROUPED, IDS),
    "cohere": ("CohereConfig", "CohereForCausalLM", GROUPED, IDS),
    "glm": ("GlmConfig", "GlmForCausalLM", HEADS, IDS),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", GROUPED, IDS),
    "biogpt": ("BioGptConfig", "BioGptForCausalLM", SMALL, IDS),
    "xglm": ("XGLMConfig", "XGLMForCausalLM", dict(SMALL, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4),
        IDS),
    "bert": ("BertConfig", "BertForMaskedLM", SMALL, IDS),
    "bert-classes": ("BertConfig", "BertForSequenceClassification", SMALL, IDS),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", SMALL, IDS),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaForTokenClassification", SMALL, IDS),
    "camembert": ("CamembertConfig", "CamembertForMaskedLM", SMALL, IDS),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM", dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4,
        vocab_size=96, max_position_embeddings=32), IDS),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", dict(SMALL, embedding_size=16), IDS),
    "electra": ("ElectraConfig", "ElectraForMaskedLM", dict(SMALL, embedding_size=16), IDS),
    "mpnet": ("MPNetConfig", "MPNetForMaskedLM", SMALL, IDS),
    "deberta": ("DebertaConfig", "DebertaForMaskedLM", dict(SMALL, relative_attention=True, pos_att_type=["c2p",
        "p2c"], max_relative_positions=8), IDS),
    "deberta_v2": ("DebertaV2Config", "DebertaV2ForMaskedLM", dict(SMALL, relative_attention=True,
        pos_att_type=["c2p", "p2c"], position_buckets=8), IDS),
    "modernbert": ("ModernBertConfig", "ModernBertForMaskedLM", dict(SMALL, local_attention=4, cls_token_id=1,
        sep_token_id=2), IDS),
    "roformer": ("RoFormerConfig", "RoFormerForMaskedLM", dict(SMALL, embedding_size=32), IDS),
    "ernie": ("ErnieConfig", "ErnieForMaskedLM", SMALL, IDS),
    "convbert": ("ConvBertConfig", "ConvBertForMaskedLM", dict(SMALL, embedding_size=32), IDS),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertForMaskedLM", dict(SMALL, embedding_size=32), IDS),
    "mobilebert": ("MobileBertConfig", "MobileBertForMaskedLM", dict(SMALL, embedding_size=16,
        intra_bottleneck_size=16, true_hidden_size=16), IDS),
    "funnel": ("FunnelConfig", "FunnelForMaskedLM", dict(vocab_size=96, d_model=32, n_head=4, d_head=8, d_inner=48,
        block_sizes=[1, 1]), IDS),
    "xlnet": ("XLNetConfig", "XLNetLMHeadModel", dict(vocab_size=96, d_model=32, n_layer=2, n_head=4, d_inner=48), IDS),
    "t5": ("T5Config", "T5ForConditionalGeneration", dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        vocab_size=96, decoder_start_token_id=0), BOTH),
    "mt5": ("MT5Config", "MT5ForConditionalGeneration", dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        vocab_size=96, decoder_start_token_id=0), BOTH),
    "bart": ("BartConfig", "BartForConditionalGeneration", SEQ2SEQ, BOTH),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration", SEQ2SEQ, BOTH),
    "pegasus": ("PegasusConfig", "PegasusForConditionalGeneration", SEQ2SEQ, BOTH),
    "marian": ("MarianConfig", "MarianMTModel", dict(SEQ2SEQ, decoder_vocab_size=96), BOTH),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", dict(SEQ2SEQ, num_mel_bins=8,
        max_source_positions=8, max_target_positions=16), {"input_features": ("float", (2, 8, 16)),
        "decoder_input_ids": ("int", (2, 8))}),
    "vit": ("ViTConfig", "ViTForImageClassification", VISION, IMAGE),
    "deit": ("DeiTConfig", "DeiTForImageClassification", VISION, IMAGE),
    "beit": ("BeitConfig", "BeitForImageClassification", dict(VISION, use_relative_position_bias=True), IMAGE),
    "data2vec-vision": ("Data2VecVisionConfig", "Data2VecVisionForImageClassification", dict(VISION,
        use_shared_relative_position_bias=True), IMAGE),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", dict(VISION, mlp_ratio=2), IMAGE),
    "swin": ("SwinConfig", "SwinForImageClassification", dict(STAGES, patch_size=2, embed_dim=16, depths=[1, 2],
        num_heads=[2, 4], window_size=4), IMAGE),
    "swinv2": ("Swinv2Config", "Swinv2ForImageClassification", dict(STAGES, patch_size=2, embed_dim=16, depths=[1, 2],
        num_heads=[2, 4], window_size=4), IMAGE),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 1],
        num_stages=2), IMAGE),
    "convnextv2": ("ConvNextV2Config", "ConvNextV2ForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 1],
        num_stages=2), IMAGE),
    "resnet": ("ResNetConfig", "ResNetForImageClassification", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1,
        1], layer_type="basic"), IMAGE),
    "regnet": ("RegNetConfig", "RegNetForImageClassification", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1,
        1], groups_width=4), IMAGE),
    "bit": ("BitConfig", "BitForImageClassification", dict(embedding_size=8, hidden_sizes=[32, 64], depths=[1, 1],
        num_groups=4), IMAGE),
    "mobilenet_v1": ("MobileNetV1Config", "MobileNetV1ForImageClassification", dict(depth_multiplier=.125,
        image_size=32), IMAGE),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2ForImageClassification", dict(depth_multiplier=.1,
        image_size=32), IMAGE),
    "mobilevit": ("MobileViTConfig", "MobileViTForImageClassification", dict(image_size=64, patch_size=2,
        hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32], num_attention_heads=2),
        {"pixel_values": ("float", (2, 3, 64, 64))}),
    "poolformer": ("PoolFormerConfig", "PoolFormerForImageClassification", dict(hidden_sizes=[8, 16], depths=[1, 1],
        num_encoder_blocks=2, patch_sizes=[3, 3], strides=[2, 2], padding=[1, 1]), IMAGE),
    "segformer": ("SegformerConfig", "SegformerForImageClassification", dict(num_encoder_blocks=2, depths=[1, 1],
        sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3], strides=[2, 2], num_attention_heads=[1, 2],
        mlp_ratios=[2, 2]), IMAGE),
    "pvt": ("PvtConfig", "PvtForImageClassification", dict(image_size=32, hidden_sizes=[8, 16], depths=[1, 1],
        num_encoder_blocks=2, sequence_reduction_ratios=[2, 1], patch_sizes=[4, 2], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2]), IMAGE),
    "focalnet": ("FocalNetConfig", "FocalNetForImageClassification", dict(image_size=32, patch_size=4, embed_dim=8,
        hidden_sizes=[8, 16], depths=[1, 1], focal_levels=[1, 1], focal_windows=[3, 3]), IMAGE),
    "levit": ("LevitConfig", "LevitForImageClassification", dict(image_size=32, hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8], attention_ratio=[2, 2, 2], mlp_ratio=[2,
        2, 2]), IMAGE),
    "clip": ("CLIPConfig", "CLIPModel", dict(text_config=dict(SMALL, projection_dim=16), vision_config=dict(VISION,
        projection_dim=16), projection_dim=16), {"input_ids": ("int", (2, 8)), "pixel_values": ("float", (2, 3, 32,
        32))}),
    "siglip": ("SiglipConfig", "SiglipModel", dict(text_config=dict(SMALL, projection_size=32), vision_config=VISION),
        {"input_ids": ("int", (2, 8)), "pixel_values": ("float", (2, 3, 32, 32))}),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForSequenceClassification", dict(SMALL, conv_dim=(8, 8), conv_stride=(4,
        4), conv_kernel=(8, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
        classifier_proj_size=16, apply_spec_augment=False, layerdrop=0.), AUDIO),
    "hubert": ("HubertConfig", "HubertForSequenceClassification", dict(SMALL, conv_dim=(8, 8), conv_stride=(4, 4),
        conv_kernel=(8, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
        classifier_proj_size=16, apply_spec_augment=False, layerdrop=0.), AUDIO),
    "ast": ("ASTConfig", "ASTForAudioClassification", dict(VISION, num_mel_bins=16, max_length=32, patch_size=8,
        frequency_stride=8, time_stride=8), {"input_values": ("float", (2, 32, 16))}),
    "decision": ("DecisionTransformerConfig", "DecisionTransformerGPT2Model", dict(n_embd=32, n_layer=2, n_head=4,
        vocab_size=96, n_positions=32, hidden_size=32), IDS),
}


def torchvision_models():
    """name: a function that makes the classifier, and the side of its images."""
    import torchvision.models as tv
    from functools import partial
    from torchvision.models import convnext, densenet, efficientnet, mobilenetv3, regnet, resnet, vgg

    def efficient():
        blocks, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=.25, depth_mult=.3)
        return efficientnet.EfficientNet(blocks, .2, last_channel=last, num_classes=10)

    def efficient_v2():
        blocks = [efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1),
                  efficientnet.MBConvConfig(4, 3, 2, 16, 16, 2)]
        return efficientnet.EfficientNet(blocks, .2, last_channel=32, num_classes=10)

    def mobile_v3():
        blocks, last = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=.25)
        return mobilenetv3.MobileNetV3(blocks, last, num_classes=10)

    small = [16, "M", 16, "M", 32, "M", 32, 32, "M", 32, 32, "M"]
    return {
        "tv-alexnet": (lambda: _narrow(tv.AlexNet(num_classes=10), 9216), 64),
        "tv-vgg": (lambda: _narrow(vgg.VGG(vgg.make_layers(small), num_classes=10), 1568), 32),
        "tv-vgg-bn": (lambda: _narrow(vgg.VGG(vgg.make_layers(small, batch_norm=True), num_classes=10), 1568), 32),
        "tv-resnet": (lambda: resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10), 32),
        "tv-resnet-bottleneck": (lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10), 32),
        "tv-resnext": (lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], groups=8, width_per_group=4,
            num_classes=10), 32),
        "tv-squeezenet": (lambda: tv.squeezenet1_1(num_classes=10), 64),
        "tv-densenet": (lambda: densenet.DenseNet(8, (2, 2, 2), 16, num_classes=10), 32),
        "tv-googlenet": (lambda: tv.GoogLeNet(num_classes=10, aux_logits=False, init_weights=False), 64),
        "tv-inception": (lambda: tv.Inception3(num_classes=10, aux_logits=False, init_weights=False), 80),
        "tv-shufflenet": (lambda: tv.ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 128], num_classes=10), 32),
        "tv-mobilenet-v2": (lambda: tv.MobileNetV2(num_classes=10, width_mult=.1), 32),
        "tv-mobilenet-v3": (mobile_v3, 32),
        "tv-mnasnet": (lambda: tv.MNASNet(.35, num_classes=10), 32),
        "tv-efficientnet": (efficient, 32),
        "tv-efficientnet-v2": (efficient_v2, 32),
        "tv-regnet": (lambda: regnet.RegNet(regnet.BlockParams.from_init_params(depth=4, w_0=16, w_a=16, w_m=2.,
            group_width=8, se_ratio=.25), num_classes=10), 32),
        "tv-vit": (lambda: tv.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=10), 32),
        "tv-swin": (lambda: tv.SwinTransformer([2, 2], 16, [1, 1], [2, 4], [4, 4], num_classes=10), 32),
        "tv-swin-v2": (lambda: tv.SwinTransformer([2, 2], 16, [1, 1], [2, 4], [4, 4], num_classes=10,
            block=tv.swin_transformer.SwinTransformerBlockV2, downsample_layer=tv.swin_transformer.PatchMergingV2), 32),
        "tv-convnext": (lambda: tv.ConvNeXt([convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, None, 1)],
            num_classes=10), 32),
        "tv-maxvit": (lambda: tv.MaxVit((32, 32), 8, 4, [8, 16], [1, 1], 8, .2, num_classes=10), 32),
    }


def _narrow(model, features):
    """The same classifier on `features`, with hidden layers of 32: AlexNet and VGG keep nearly all their weights there."""
    from torch import nn
    wide = [m for m in model.classifier if isinstance(m, nn.Linear)]
    model.classifier = nn.Sequential(*(m if not isinstance(m, nn.Linear) else nn.Linear(
        features if m is wide[0] else 32, m.out_features if m is wide[-1] else 32) for m in model.classifier))
    return model


def build(name, train=True):
    """(module whose forward returns one number, example inputs)."""
    import torch
    import transformers

    torch.manual_seed(0)
    if name.startswith("tv-"):
        make, side = torchvision_models()[name]
        model, inputs = make(), {"x": ("float", (2, 3, side, side))}
    else:
        config, architecture, arguments, inputs = FAMILIES[name]
        made = getattr(transformers, config)(**arguments)
        if hasattr(made, "use_cache"):
            made.use_cache = False
        model = getattr(transformers, architecture)(made)
    keys = list(inputs)
    tensors = tuple(torch.randint(3, 96, shape) if kind == "int" else torch.randn(shape) for kind,
        shape in inputs.values())

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = model

        def forward(self, *values):
            out = self.m(*values) if name.startswith("tv-") else self.m(**dict(zip(keys, values)))
            for field in ("logits", "logits_per_image", "last_hidden_state"):
                if getattr(out, field, None) is not None:
                    out = getattr(out, field)
                    break
            return (out * out).mean()

    return WithLoss().train(train), tensors


def truth(name):
    """The module's parameters (with ties, and whether the loss depends on them) and buffers, as JSON."""
    module, inputs = build(name)
    module.eval()(*inputs).backward()
    groups = collections.defaultdict(list)
    for each, parameter in module.named_parameters(remove_duplicate=False):
        groups[id(parameter)].append((each, parameter))
    return {"parameters": [{"names": [n for n, _ in g], "shape": list(g[0][1].shape), "trains": g[0][1].requires_grad,
                            "used": g[0][1].grad is not None} for g in groups.values()],
            "buffers": [n for n, _ in module.named_buffers(remove_duplicate=False)]}


# --- Exporting --------------------------------------------------------------------------------------------------------


def scrimp_export():
    loader = importlib.machinery.SourceFileLoader("scrimp_export", str(ROOT / "tools" / "scrimp-export"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("scrimp_export", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(tool)
    return tool


@contextlib.contextmanager
def at_most(seconds):
    def stop(*_):
        raise TimeoutError(f"took more than {seconds} s")
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def export(name, cache, tool):
    """Writes the files of all routes that are not in the cache; why a route failed stands beside it."""
    import torch
    folder = cache / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "truth.json").exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (folder / "truth.json").write_text(json.dumps(truth(name)))
    for routes in (("scrimp",), ("dynamo-raw", "dynamo")):
        files = [folder / f"{route}.onnx" for route in routes]
        if all(f.exists() or f.with_suffix(".failed").exists() for f in files):
            continue
        for train in (True, False):  # some classes cannot be traced in train mode
            try:
                with at_most(EXPORT_SECONDS), warnings.catch_warnings(), open(os.devnull, "w") as null, \
                        contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
                    warnings.simplefilter("ignore")
                    module, inputs = build(name, train)
                    if routes[0] == "scrimp":
                        tool.export(module, inputs, files[0])
                    else:
                        program = torch.onnx.export(module, inputs, dynamo=True, optimize=False, verbose=False)
                        program.save(str(files[0]))
                        program.optimize()  # what torch.onnx.export does by default
                        program.save(str(files[1]))
                break
            except Exception as error:
                if not train:
                    for file in files:
                        file.with_suffix(".failed").write_text(f"{type(error).__name__}: {error}"[:2000])
                    print(f"{name} {routes[0]}: not exported: {str(error).splitlines()[0][:160]}", file=sys.stderr)


# --- Comparing --------------------------------------------------------------------------------------------------------

LINE = re.compile(r"^(trainable|frozen|state|constant) +(\S+) \[([0-9x]*)\](?: = ([^:]*?))?(?:: (.*))?$")


def check(folder, route, binary):
    """(violations, what happened) of one file."""
    run = subprocess.run(["nice", binary / "scrimp-plan", folder / f"{route}.onnx", "--parameters"],
        capture_output=True,
                         text=True, timeout=PLAN_SECONDS)
    if run.returncode:
        reason = next((l for l in run.stderr.splitlines() if "error" in l), run.stderr[-200:])
        return [], ("crashed: " if run.returncode < 0 else "refused: ") + reason
    known = json.loads((folder / "truth.json").read_text())
    listed = {}  # name: (role, shape, the entry's number)
    for number, line in enumerate(run.stdout.splitlines()):
        match = LINE.match(line)
        if match:
            role, name, shape, aliases, _ = match.groups()
            shape = [int(n) for n in shape.split("x")] if shape else []
            for each in [name] + (aliases.split(", ") if aliases else []):
                listed[each] = (role, shape, number)
    warned = set()
    for line in run.stderr.splitlines():
        if "warning" in line:
            warned.update(re.findall(r"'([^']+)'", line))
    violations, owners, warnings_used = [], {}, 0
    for parameter in known["parameters"]:
        names, found = parameter["names"], [listed[n] for n in parameter["names"] if n in listed]
        if any(n in warned for n in names):
            warnings_used += 1
        elif not found:
            violations.append(f"{names[0]} is lost")
        elif not parameter["trains"]:
            if found[0][0] == "trainable":
                violations.append(f"{names[0]} is trained, but its requires_grad is false")
        elif found[0][0] != ("trainable" if parameter["used"] else "frozen"):
            violations.append(f"{names[0]} is {found[0][0]}")
        elif found[0][1] != parameter["shape"]:
            violations.append(f"{names[0]} has shape {found[0][1]}, not {parameter['shape']}")
        for _, _, number in found:
            if owners.setdefault(number, names[0]) != names[0] and names[0] not in warned:
                violations.append(f"{names[0]} and {owners[number]} are one")
        if len({number for _, _, number in found}) > 1 and names[0] not in warned:
            violations.append(f"{names[0]}'s ties are apart")
    for buffer in known["buffers"]:
        if listed.get(buffer, ("",))[0] == "trainable":
            violations.append(f"buffer {buffer} is trained")
    every = {n for p in known["parameters"] for n in p["names"]} | set(known["buffers"])
    for name, (role, _, _) in listed.items():
        if role == "trainable" and name not in every and name not in warned:
            violations.append(f"{name} is trained, which the module does not know")
    return violations, f"{len(known['parameters'])} parameters, {warnings_used} named in warnings"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="patterns; all by default")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build" / "families")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--no-export", action="store_true", help="only what the cache holds; needs no PyTorch")
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="also tell what holds")
    options = parser.parse_args()
    names = list(FAMILIES)
    if not options.no_export:
        names += list(torchvision_models())
    else:
        names += sorted(p.name for p in options.cache.glob("tv-*"))
    names = [n for n in names if not options.names or any(fnmatch.fnmatch(n, p) for p in options.names)]
    tool = None if options.no_export else scrimp_export()
    totals, bad = collections.Counter(), 0
    for name in names:
        if not options.no_export:
            export(name, options.cache, tool)
        for route in ROUTES if not options.export_only else ():
            folder = options.cache / name
            if not (folder / f"{route}.onnx").exists() or not (folder / "truth.json").exists():
                totals[route, "not exported"] += 1
                continue
            violations, summary = check(folder, route, options.bin)
            bad += len(violations)
            totals[route, summary.split(":")[0] if ":" in summary else "listed"] += 1
            totals[route, "violations"] += len(violations)
            for violation in violations:
                print(f"{name} {route}: {violation}")
            if options.verbose or ":" in summary:
                print(f"{name} {route}: {summary}")
    for route in ROUTES:
        print(f"{route}: " + ", ".join(f"{totals[r, what]} {what}" for r, what in sorted(totals) if r == route))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
