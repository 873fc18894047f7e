"""tests/golden/models/mae*: tiny random masked autoencoders as transformers saves them, and what it
makes of them. Run: python tools/make-golden/mae.py

NAME/               config.json and model.safetensors (F32) by save_pretrained; of "mae" with the
                    decoder's names as on the hub, which transformers 5 reads and misspells
NAME.safetensors    pixels (B, H, W, C), noise (B, patches) that the masks are of, logits, loss, and
                    grad.TENSOR, the gradient of every trained tensor under its name in the file;
                    computed in double precision

What could be wired wrongly has a value that is not the default."""

import os

import torch
from safetensors.torch import load_file, save_file
from transformers import ViTMAEConfig, ViTMAEForPreTraining

OUT = "tests/golden/models"
B, SIDE, PATCHES = 3, 12, 9

MAE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
           decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
           decoder_intermediate_size=28, image_size=SIDE, patch_size=4, layer_norm_eps=0.01,
           initializer_range=0.1, hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.15)

MODELS = {
    "mae": ViTMAEForPreTraining(ViTMAEConfig(**MAE, mask_ratio=0.5)),
    "mae-normed": ViTMAEForPreTraining(ViTMAEConfig(
        **MAE, num_channels=1, qkv_bias=False, hidden_act="gelu_new", norm_pix_loss=True)),
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
        if not p.requires_grad:
            continue
        norm = p.ndim == 1 and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p[0].numel() ** -0.5
        if "token" in name:
            scale = 1
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)


def golden(model):
    pixels = torch.randn(B, model.config.num_channels, SIDE, SIDE)
    noise = torch.rand(B, PATCHES)
    model = model.eval().double()
    y = model(pixel_values=pixels.double(), noise=noise.double())
    y.loss.backward()
    out = {f"grad.{in_file(name)}": p.grad for name, p in model.named_parameters()
           if p.requires_grad}
    out |= {"pixels": pixels.permute(0, 2, 3, 1), "noise": noise, "logits": y.logits.detach(),
            "loss": y.loss.detach()}
    return {name: x.float().contiguous() for name, x in out.items()}


torch.manual_seed(12)
for name, model in MODELS.items():
    folder = f"{OUT}/{name}"
    model.config._attn_implementation = "eager"
    randomize(model)
    model.save_pretrained(folder)
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    if name == "mae":
        path = f"{folder}/model.safetensors"
        save_file({k.replace("decoder_encoder.layer", "decoder_layers"): x
                   for k, x in load_file(path).items()}, path, {"format": "pt"})
    save_file(golden(model), f"{OUT}/{name}.safetensors")
