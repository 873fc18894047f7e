"""tests/golden/models/clip*: tiny random CLIPModels as transformers saves them, and what it makes
of them. Run: python tools/make-golden/clip.py

NAME/               config.json and model.safetensors (F32) by save_pretrained
NAME.safetensors    ids (B, T), texts with their eos and anything behind it; pixels (B, H, W, C);
                    logits (images, texts), loss, text_vectors and image_vectors, which are not
                    normalised, and grad.TENSOR, the gradient of every tensor of the model; wide
                    (1, H, W, C), pixels of another shape, and wide_vectors, with positions
                    interpolated to it; computed in double precision

What could be wired wrongly has a value that is not the default. "clip-old" has the eos id 2 of the
files of 2021, which means that a text's greatest id is its end."""

import torch
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel

OUT = "tests/golden/models"
B, T, V = 3, 9, 31

TEXT = dict(vocab_size=V, max_position_embeddings=12, hidden_size=24, num_hidden_layers=2,
            num_attention_heads=3, intermediate_size=40, layer_norm_eps=0.01,
            attention_dropout=0.15, bos_token_id=3, pad_token_id=7, projection_dim=20)
VISION = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=28,
              image_size=12, patch_size=4, layer_norm_eps=0.02, attention_dropout=0.05,
              projection_dim=20)

MODELS = {
    "clip": (dict(eos_token_id=5), {}),
    "clip-old": (dict(eos_token_id=2, hidden_act="gelu"),
                 dict(num_channels=1, hidden_act="gelu_new")),
}


def texts(eos):
    """Three lengths; behind an end another one and others."""
    ids = torch.randint(8, V - 1, (B, T))
    for i, length in enumerate((4, T, 6)):
        ids[i, length - 1:] = 7
        ids[i, length - 1] = eos
    ids[0, 6] = eos
    return ids


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = "norm" in name and name.endswith("weight")
        scale = 0.4 if p.ndim < 2 else 1.4 * p[0].numel() ** -0.5
        if "embedding" in name and "patch" not in name:
            scale = 1
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)
    model.logit_scale.data = torch.tensor(1.3)


def golden(model):
    c = model.config
    ids = texts(5 if c.text_config.eos_token_id == 5 else V - 1)
    pixels = torch.randn(B, c.vision_config.num_channels, 12, 12).double()
    wide = torch.randn(1, c.vision_config.num_channels, 20, 8).double()
    model = model.eval().double()
    y = model(input_ids=ids, pixel_values=pixels, return_loss=True)
    y.loss.backward()
    out = {f"grad.{name}": p.grad for name, p in model.named_parameters()}
    out |= {"logits": y.logits_per_image, "loss": y.loss,
            "text_vectors": model.get_text_features(input_ids=ids).pooler_output,
            "image_vectors": model.get_image_features(pixel_values=pixels).pooler_output,
            "wide_vectors": model.get_image_features(
                pixel_values=wide, interpolate_pos_encoding=True).pooler_output,
            "pixels": pixels.permute(0, 2, 3, 1), "wide": wide.permute(0, 2, 3, 1)}
    return {k: x.detach().float().contiguous() for k, x in out.items()} | {"ids": ids.int()}


torch.manual_seed(13)
for name, (text, vision) in MODELS.items():
    model = CLIPModel(CLIPConfig(
        text_config=TEXT | text, vision_config=VISION | vision, projection_dim=20,
        logit_scale_init_value=1.5, attn_implementation="eager"))
    randomize(model)
    model.save_pretrained(f"{OUT}/{name}")
    save_file(golden(model), f"{OUT}/{name}.safetensors")
