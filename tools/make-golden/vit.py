"""tests/golden/models/vit*, deit*, dinov2*: tiny random models of images as transformers saves
them, and what it makes of them. Run: python tools/make-golden/vit.py

NAME/               config.json and model.safetensors (F32) by save_pretrained
NAME.safetensors    pixels (B, H, W, C), targets (B), logits, loss, and grad.TENSOR, the gradient of
                    every tensor of the model under its name in the file; computed in double
                    precision; of some also wide (1, H, W, C), pixels of another shape, and
                    wide_logits, with positions interpolated to it. Encoders have vectors (B, width)
                    in place of logits, and a loss of the mean of their squares

What could be wired wrongly has a value that is not the default."""

import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (DeiTConfig, DeiTForImageClassification,
                          DeiTForImageClassificationWithTeacher, DeiTModel, Dinov2Config,
                          Dinov2ForImageClassification, Dinov2Model, Dinov2WithRegistersConfig,
                          Dinov2WithRegistersForImageClassification, Dinov2WithRegistersModel,
                          ViTConfig, ViTForImageClassification, ViTModel)

OUT = "tests/golden/models"
B = 3

VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
           image_size=12, patch_size=4, layer_norm_eps=0.01, initializer_range=0.1,
           hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.15)

DINOV2 = {k: v for k, v in VIT.items() if k != "intermediate_size"} | {
    "mlp_ratio": 2, "layerscale_value": 0.5}
NAMES = {"id2label": {0: "cat", 1: "dog", 2: "fish", 3: "owl"},
         "label2id": {"cat": 0, "dog": 1, "fish": 2, "owl": 3}}

MODELS = {
    "vit": ViTForImageClassification(ViTConfig(
        **VIT, id2label={0: "cat", 1: "dog", 2: "fish", 3: "owl"},
        label2id={"cat": 0, "dog": 1, "fish": 2, "owl": 3})),
    "vit-grey": ViTForImageClassification(ViTConfig(
        **VIT, num_channels=1, qkv_bias=False, hidden_act="gelu_new", encoder_stride=4)),
    "vit-encoder": ViTModel(ViTConfig(**VIT, pooler_output_size=10)),
    "vit-encoder-bare": ViTModel(ViTConfig(**VIT, hidden_act="relu"), add_pooling_layer=False),
    "deit": DeiTForImageClassification(DeiTConfig(**VIT, **NAMES)),
    "deit-teacher": DeiTForImageClassificationWithTeacher(DeiTConfig(
        **VIT, **NAMES, qkv_bias=False, hidden_act="gelu_new")),
    "deit-encoder": DeiTModel(DeiTConfig(**VIT)),
    "dinov2": Dinov2ForImageClassification(Dinov2Config(**DINOV2, **NAMES)),
    "dinov2-gated": Dinov2ForImageClassification(Dinov2Config(
        **DINOV2, use_swiglu_ffn=True, use_mask_token=False, qkv_bias=False, num_channels=1)),
    "dinov2-encoder": Dinov2Model(Dinov2Config(**DINOV2, hidden_act="gelu_new")),
    "dinov2-registers": Dinov2WithRegistersForImageClassification(Dinov2WithRegistersConfig(
        **DINOV2, **NAMES, num_register_tokens=3)),
    "dinov2-registers-encoder": Dinov2WithRegistersModel(Dinov2WithRegistersConfig(
        **DINOV2, num_register_tokens=2, use_swiglu_ffn=True)),
}
WIDE = ["vit", "deit", "dinov2", "dinov2-registers"]

# Names of parameters -> names in files.
RENAMED = {"layers.": "encoder.layer.", "q_proj": "attention.query", "k_proj": "attention.key",
           "v_proj": "attention.value", "o_proj": "output.dense"}
VIT_NAMES = {"mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}
GATED = {"mlp.down_proj": "mlp.weights_out"}


def in_file(name, dinov2):
    for ours, theirs in (RENAMED | (GATED if dinov2 else VIT_NAMES)).items():
        name = name.replace(ours, theirs)
    return name


def gradients(model):
    """By names in the file, where gate and up are one tensor. Nothing has a pooler's or a mask
    token's."""
    dinov2 = model.config.model_type.startswith("dinov2")
    out = {in_file(name, dinov2): p.grad for name, p in model.named_parameters()
           if p.grad is not None}
    for name in [name for name in out if "mlp.gate_proj" in name]:
        up = out.pop(name.replace("gate_proj", "up_proj"))
        out[name.replace("gate_proj", "weights_in")] = torch.cat([out.pop(name), up])
    return {f"grad.{name}": grad for name, grad in out.items()}


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p[0].numel() ** -0.5
        if "token" in name or "position" in name or "lambda" in name:
            scale = 1
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)


def golden(name, model):
    channels = model.config.num_channels
    pixels = torch.randn(B, channels, 12, 12)
    targets = torch.tensor([1, 0, model.config.num_labels - 1])
    model = model.eval().double()
    found = model(pixel_values=pixels.double())
    out = {"pixels": pixels.permute(0, 2, 3, 1)}
    if hasattr(found, "logits"):
        out["logits"] = found.logits
        out["loss"] = F.cross_entropy(found.logits, targets)
    else:
        out["vectors"] = found.last_hidden_state[:, 0]
        out["loss"] = out["vectors"].pow(2).mean()
    out["loss"].backward()
    out |= gradients(model)
    if name in WIDE:
        wide = torch.randn(1, channels, 20, 8)
        more = {} if name.startswith("dinov2") else {"interpolate_pos_encoding": True}
        out["wide"] = wide.permute(0, 2, 3, 1)
        out["wide_logits"] = model(pixel_values=wide.double(), **more).logits
    out = {name: x.detach().float().contiguous() for name, x in out.items()}
    return out | {"targets": targets.int()}


torch.manual_seed(11)
for name, model in MODELS.items():
    folder = f"{OUT}/{name}"
    model.config._attn_implementation = "eager"
    randomize(model)
    model.save_pretrained(folder)
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    save_file(golden(name, model), f"{OUT}/{name}.safetensors")
