"""tests/golden/models/cct*: the compact transformer as its paper describes it, in a few lines of
torch, tiny and random. Run: python tools/make-golden/cct.py

NAME/               config.json, in qkv's own keys, and model.safetensors (F32)
NAME.safetensors    pixels (B, H, W, C), targets (B), logits, loss, and grad.TENSOR, the gradient of
                    every tensor; computed in double precision"""

import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

OUT = "tests/golden/models"
B, SIDE, WIDTH, HEADS, FF, CLASSES = 3, 13, 24, 3, 40, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        weights = (q @ k.mT * (WIDTH // HEADS) ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """The norm after the attention takes the stream's place."""

    def __init__(self):
        super().__init__()
        self.pre_norm, self.norm1 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.self_attn = Attention()
        self.linear1, self.linear2 = nn.Linear(WIDTH, FF), nn.Linear(FF, WIDTH)

    def forward(self, x):
        x = self.norm1(x + self.self_attn(self.pre_norm(x)))
        return x + self.linear2(F.gelu(self.linear1(x)))


class Tokenizer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.conv_layers = nn.Sequential(*(
            nn.Sequential(nn.Conv2d(a, b, 3, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
            for a, b in zip(sizes, sizes[1:])))

    def forward(self, x):
        return self.conv_layers(x).flatten(2).mT


class Classifier(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.positional_emb = nn.Parameter(torch.zeros(1, tokens, WIDTH)) if tokens else 0
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.attention_pool = nn.Linear(WIDTH, 1)
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.norm(self.blocks(x + self.positional_emb))
        return self.fc((self.attention_pool(x).softmax(1).mT @ x).squeeze(1))


class Compact(nn.Module):
    def __init__(self, sizes, tokens):
        super().__init__()
        self.tokenizer, self.classifier = Tokenizer(sizes), Classifier(tokens)

    def forward(self, x):
        return self.classifier(self.tokenizer(x))


CONFIG = {"architectures": ["QkvCompactTransformer"], "model_type": "qkv_cct", "dtype": "float32",
          "image_size": SIDE, "hidden_size": WIDTH, "num_hidden_layers": 2,
          "num_attention_heads": HEADS, "intermediate_size": FF, "num_labels": CLASSES}
MODELS = {
    "cct": (Compact([3, 7, WIDTH], 16),
            {"num_channels": 3, "num_conv_layers": 2, "conv_channels": 7}),
    "cct-plain": (Compact([1, WIDTH], 0),
                  {"num_channels": 1, "num_conv_layers": 1, "use_positions": False}),
}


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p[0].numel() ** -0.5
        scale = 1 if "positional" in name else scale
        p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)


torch.manual_seed(29)
for name, (model, config) in MODELS.items():
    os.makedirs(f"{OUT}/{name}", exist_ok=True)
    randomize(model)
    save_file(model.state_dict(), f"{OUT}/{name}/model.safetensors")
    with open(f"{OUT}/{name}/config.json", "w", encoding="utf-8") as f:
        json.dump(CONFIG | config, f, indent=2)
        f.write("\n")
    pixels = torch.randn(B, config["num_channels"], SIDE, SIDE)
    targets = torch.tensor([1, 0, CLASSES - 1])
    model = model.double()
    logits = model(pixels.double())
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    out = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    out |= {"pixels": pixels.permute(0, 2, 3, 1), "logits": logits.detach(),
            "loss": loss.detach()}
    out = {n: x.float().contiguous() for n, x in out.items()}
    save_file(out | {"targets": targets.int()}, f"{OUT}/{name}.safetensors")
