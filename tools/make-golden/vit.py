"""tests/golden/models/vit*: tiny random models of images as transformers saves them, and what it
makes of them. Run: python tools/make-golden/vit.py

NAME/               config.json and model.safetensors (F32) by save_pretrained
NAME.safetensors    pixels (B, H, W, C), targets (B), logits, loss, and grad.TENSOR, the gradient of
                    every tensor of the model under its name in the file; computed in double
                    precision; of "vit" also wide (1, H, W, C), pixels of another shape, and
                    wide_logits, with positions interpolated to it

What could be wired wrongly has a value that is not the default."""

import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import ViTConfig, ViTForImageClassification

OUT = "tests/golden/models"
B = 3

VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
           image_size=12, patch_size=4, layer_norm_eps=0.01, initializer_range=0.1,
           hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.15)

MODELS = {
    "vit": ViTForImageClassification(ViTConfig(
        **VIT, id2label={0: "cat", 1: "dog", 2: "fish", 3: "owl"},
        label2id={"cat": 0, "dog": 1, "fish": 2, "owl": 3})),
    "vit-grey": ViTForImageClassification(ViTConfig(
        **VIT, num_channels=1, qkv_bias=False, hidden_act="gelu_new", encoder_stride=4)),
}

# Names of parameters -> names in files.
NAMES = {"vit.layers.": "vit.encoder.layer.", "q_proj": "attention.query",
         "k_proj": "attention.key", "v_proj": "attention.value", "o_proj": "output.dense",
         "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}


def in_file(name):
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p[0].numel() ** -0.5
        if "token" in name or "position" in name:
            scale = 1
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)


def golden(name, model):
    channels = model.config.num_channels
    pixels = torch.randn(B, channels, 12, 12)
    targets = torch.tensor([1, 0, model.config.num_labels - 1])
    model = model.eval().double()
    logits = model(pixel_values=pixels.double()).logits
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    out = {f"grad.{in_file(name)}": p.grad for name, p in model.named_parameters()}
    out |= {"pixels": pixels.permute(0, 2, 3, 1), "logits": logits.detach(),
            "loss": loss.detach()}
    if name == "vit":
        wide = torch.randn(1, channels, 20, 8)
        out["wide"] = wide.permute(0, 2, 3, 1)
        out["wide_logits"] = model(pixel_values=wide.double(),
                                   interpolate_pos_encoding=True).logits.detach()
    out = {name: x.float().contiguous() for name, x in out.items()}
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
