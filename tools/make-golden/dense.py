"""tests/golden/models/{segmenter,colorizer,convolutions}*: tiny random models of every pixel, and
what a plain torch module makes of them. Run: python tools/make-golden/dense.py

NAME/               config.json and model.safetensors (F32), in qkv's own names
NAME.safetensors    pixels (B, H, W, channels), pixel_classes (B, H, W) or colors (B, H, W, 2),
                    logits (B, H, W, outputs), loss, and grad.TENSOR, the gradient of every tensor;
                    computed in double precision

What could be wired wrongly has a value that is not the default."""

import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

OUT = "tests/golden/models"
B, SIZE, PATCH, D, HEADS, FF, LAYERS, EPS = 3, 12, 4, 24, 3, 40, 2, 0.01
DELTA = 0.3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleDict({k: nn.Linear(D, D) for k in ("query", "key", "value")})
        self.output = nn.ModuleDict({"dense": nn.Linear(D, D)})

    def forward(self, x):
        q, k, v = (self.attention[n](x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for n in ("query", "key", "value"))
        weights = (q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5).softmax(-1)
        return self.output["dense"]((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(D, FF)})
        self.output = nn.ModuleDict({"dense": nn.Linear(FF, D)})
        self.layernorm_before = nn.LayerNorm(D, EPS)
        self.layernorm_after = nn.LayerNorm(D, EPS)

    def forward(self, x):
        x = x + self.attention(self.layernorm_before(x))
        h = self.intermediate["dense"](self.layernorm_after(x))
        return x + self.output["dense"](F.gelu(h))


class Embeddings(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.position_embeddings = nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2, D))
        self.patch_embeddings = nn.ModuleDict(
            {"projection": nn.Conv2d(channels, D, PATCH, PATCH)})

    def forward(self, x):
        x = self.patch_embeddings["projection"](x).flatten(2).transpose(1, 2)
        return x + self.position_embeddings


class Dense(nn.Module):
    def __init__(self, channels, outputs, tanh, convolutions, k):
        super().__init__()
        self.vit = nn.ModuleDict({
            "embeddings": Embeddings(channels),
            "encoder": nn.ModuleDict({"layer": nn.ModuleList(Block() for _ in range(LAYERS))}),
            "layernorm": nn.LayerNorm(D, EPS)})
        numbers = k if convolutions else outputs
        self.head = nn.Linear(D, PATCH * PATCH * numbers)
        self.tanh, self.numbers, self.convolutions = tanh, numbers, convolutions
        if convolutions:
            self.stem = nn.ModuleList(nn.Conv2d(k if i else channels, k, 3, padding=1)
                                      for i in range(convolutions))
            self.detail = nn.Conv2d(k, D, PATCH, PATCH, bias=False)
            self.merge = nn.Conv2d(k, k, 3, padding=1)
            self.out = nn.Conv2d(k, outputs, 3, padding=1)

    def forward(self, pixels):
        x = self.vit["embeddings"](pixels)
        if self.convolutions:
            around = pixels
            for layer in self.stem:
                around = F.relu(layer(around))
            x = x + self.detail(around).flatten(2).transpose(1, 2)
        for block in self.vit["encoder"]["layer"]:
            x = block(x)
        x = self.head(self.vit["layernorm"](x))
        n = SIZE // PATCH
        x = x.reshape(-1, n, n, PATCH, PATCH, self.numbers)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, SIZE, SIZE, self.numbers)
        if self.convolutions:
            x = F.relu(self.merge(x.permute(0, 3, 1, 2) + around))
            x = self.out(x).permute(0, 2, 3, 1)
        return torch.tanh(x) if self.tanh else x


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and "norm" in name and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p[0].numel() ** -0.5
        scale = 1 if "position" in name else scale
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)


def golden(name, channels, outputs, config):
    model = Dense(channels, outputs, config.get("tanh", False), config.get("num_conv_layers", 0),
                  config.get("conv_channels", 0))
    randomize(model)
    os.makedirs(f"{OUT}/{name}", exist_ok=True)
    config |= {"image_size": SIZE, "patch_size": PATCH, "num_channels": channels,
               "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "intermediate_size": FF, "layer_norm_eps": EPS, "initializer_range": 0.1,
               "hidden_dropout_prob": 0.05, "attention_probs_dropout_prob": 0.15}
    with open(f"{OUT}/{name}/config.json", "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    save_file({n: p.data.contiguous() for n, p in model.named_parameters()},
              f"{OUT}/{name}/model.safetensors", metadata={"format": "pt"})
    model.double()
    pixels = torch.randn(B, channels, SIZE, SIZE)
    logits = model(pixels.double())
    out = {"pixels": pixels.permute(0, 2, 3, 1), "logits": logits.detach()}
    if name == "segmenter":
        targets = torch.randint(outputs, (B, SIZE, SIZE))
        loss = F.cross_entropy(logits.flatten(0, 2), targets.flatten())
    else:
        colors = torch.rand(B, SIZE, SIZE, 2) * 2 - 1
        loss = F.huber_loss(logits, colors.double(), delta=DELTA)
        out["colors"] = colors
    loss.backward()
    out["loss"] = loss.detach()
    out |= {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    out = {n: x.float().contiguous() for n, x in out.items()}
    if name == "segmenter":
        out["pixel_classes"] = targets.int()
    save_file(out, f"{OUT}/{name}.safetensors")


torch.manual_seed(12)
golden("segmenter", 3, 4, {
    "model_type": "qkv_segmenter", "architectures": ["QkvSegmenter"],
    "id2label": {str(i): n for i, n in enumerate(["sky", "tree", "cat", "dog"])},
    "label2id": {n: i for i, n in enumerate(["sky", "tree", "cat", "dog"])}})
golden("colorizer", 4, 2, {
    "model_type": "qkv_colorizer", "architectures": ["QkvColorizer"], "tanh": True})
golden("convolutions", 4, 2, {
    "model_type": "qkv_colorizer", "architectures": ["QkvColorizer"], "tanh": True,
    "num_conv_layers": 2, "conv_channels": 5})
