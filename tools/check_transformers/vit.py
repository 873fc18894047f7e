"""vit.py - classifiers of images."""
import json
import os
import shutil

import numpy as np
import torch
from PIL import Image
from transformers import (DeiTConfig, DeiTForImageClassification,
                          DeiTForImageClassificationWithTeacher, DeiTModel, Dinov2Config,
                          Dinov2ForImageClassification, Dinov2Model, Dinov2WithRegistersConfig,
                          Dinov2WithRegistersForImageClassification, Dinov2WithRegistersModel,
                          ViTConfig, ViTForImageClassification, ViTModel)

from .evaluate import (Tape, check_close, check_prepared, convert, empty_folder, open_model,
                       tensors_of)


def qkv_outputs(qkv, folder, pixels, function, columns):
    """Of images (B, C, H, W)."""
    with Tape(qkv.library, folder) as t:
        x = t.reals(pixels.permute(0, 2, 3, 1))
        return t.read(t.call(function, x), len(pixels), columns)


def check_outputs(qkv, folder, model, height=0, width=0):
    """Logits, or the vectors of an encoder."""
    c = model.config
    pixels = torch.randn(2, c.num_channels, height or c.image_size, width or c.image_size)
    more = {} if not height or c.model_type.startswith("dinov2") else {
        "interpolate_pos_encoding": True}
    with torch.no_grad():
        found = model(pixel_values=pixels, **more)
    encoder = not hasattr(found, "logits")
    expected = found.last_hidden_state[:, 0] if encoder else found.logits
    name = "vectors" if encoder else "logits"
    got = qkv_outputs(qkv, folder, pixels, f"qkv_vit_{name}", expected.shape[1])
    check_close(f"{name} {tuple(expected.shape)} of {tuple(pixels.shape[2:])}", got, expected)


# ---- trained here  ---------------------------------------------

CLASSES = 3
TRAINED = [("colour", 3, []), ("grey, no biases, gelu_new", 1, ["--set", "qkv_bias=false", "--set",
                                                                "hidden_act=gelu_new"])]


def write_images(scratch, channels):
    """Idx files of noise with classes; the images."""
    shape = (60, 16, 16, 3) if channels == 3 else (60, 16, 16)
    data = np.random.default_rng(7).integers(0, 256, shape, np.uint8)
    labels = np.arange(60, dtype=np.uint8) % CLASSES
    for name, x in ("images-idx3", data), ("labels-idx1", labels):
        with open(os.path.join(scratch, name), "wb") as f:
            f.write(bytes([0, 0, 8, x.ndim]) + np.array(x.shape, ">u4").tobytes() + x.tobytes())
    return os.path.join(scratch, "images-idx3"), data


def check_probabilities(qkv, folder, model, scratch, image):
    """Of a PNG, prepared as preprocessor_config.json says."""
    path = os.path.join(scratch, "image.png")
    Image.fromarray(image).save(path)
    with open(os.path.join(folder, "preprocessor_config.json"), encoding="utf-8") as f:
        c = json.load(f)
    x = image.reshape(16, 16, -1) * c["rescale_factor"]
    x = (x - np.array(c["image_mean"])) / np.array(c["image_std"])
    with torch.no_grad():
        expected = model(torch.tensor(x).float().permute(2, 0, 1)[None]).logits.softmax(-1)[0]
    said = json.loads(qkv.run("classify", folder, path, "--json"))["probs"]
    got = torch.tensor([said[model.config.id2label[i]] for i in range(CLASSES)])
    check_close("probabilities of a PNG", got, expected)


def trained(qkv, _, scratch):
    for name, channels, flags in TRAINED:
        print(f"vit-trained: {name}")
        folder = os.path.join(scratch, "trained")
        shutil.rmtree(folder, ignore_errors=True)
        path, data = write_images(scratch, channels)
        qkv.run("train", "classify", "--data", path, "--type", "vit", "--out", folder, "--model",
                "nano", "--steps", 10, *flags)
        model = open_model(ViTForImageClassification, folder)
        check_outputs(qkv, folder, model)
        check_probabilities(qkv, folder, model, scratch, data[0])
        if channels == 3: # its processors read no grey ones
            check_prepared(folder, 16)


# ---- made by transformers  ---------------------------------------------

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 80, "image_size": 32, "patch_size": 4}
NAMES = {"id2label": {0: "cat", 1: "dog", 2: "owl"}}
DINOV2 = {k: v for k, v in SMALL.items() if k != "intermediate_size"} | {"layerscale_value": 0.5}
# Name, architecture, configuration, sides of images of another shape.
MADE = [
    ("small", ViTForImageClassification, ViTConfig(**SMALL, **NAMES), (20, 44)),
    ("grey, gelu_new", ViTForImageClassification, ViTConfig(
        **SMALL, num_channels=1, hidden_act="gelu_new", qkv_bias=False, layer_norm_eps=1e-6),
     (20, 44)),
    ("encoder", ViTModel, ViTConfig(**SMALL, pooler_output_size=20), (20, 44)),
    ("DeiT, small", DeiTForImageClassification, DeiTConfig(**SMALL, **NAMES), (20, 44)),
    ("DeiT encoder", DeiTModel, DeiTConfig(**SMALL, qkv_bias=False), (20, 44)),
    ("DINOv2, small", Dinov2ForImageClassification, Dinov2Config(**DINOV2, **NAMES), (20, 44)),
    ("DINOv2, gated", Dinov2ForImageClassification, Dinov2Config(
        **DINOV2, use_swiglu_ffn=True, mlp_ratio=3, use_mask_token=False), (20, 44)),
    ("registers, gated", Dinov2WithRegistersForImageClassification, Dinov2WithRegistersConfig(
        **DINOV2, use_swiglu_ffn=True, num_register_tokens=3), (44, 20)),
    ("registers, encoder", Dinov2WithRegistersModel, Dinov2WithRegistersConfig(
        **DINOV2, num_channels=1, qkv_bias=False), (44, 20)),
    ("ViT-B/16", ViTForImageClassification, ViTConfig(num_labels=1000), (160, 256)),
    ("DeiT-base, distilled", DeiTForImageClassificationWithTeacher, DeiTConfig(num_labels=1000),
     (384, 384)),
    ("DINOv2-base", Dinov2Model, Dinov2Config(image_size=518), (224, 224)),
    ("DINOv2-base with registers", Dinov2WithRegistersForImageClassification,
     Dinov2WithRegistersConfig(image_size=518, patch_size=14, num_labels=1000), (224, 224)),
]


def made(qkv, _, scratch):
    for name, maker, config, shape in MADE:
        torch.manual_seed(7)
        folder = empty_folder(scratch, "made")
        model = maker(config).eval()
        print(f"vit-made: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
        for tensor, p in model.named_parameters(): # first values would hide mistakes
            if p.ndim == 1 or "token" in tensor:
                p.data += 0.1 * torch.randn(p.shape)
        model.save_pretrained(folder)
        check_outputs(qkv, folder, model)
        check_outputs(qkv, folder, model, *shape)
        out = convert(qkv, folder, scratch, "f32", 0, torch.float32, tensors_of(folder))
        check_outputs(qkv, out, open_model(maker, out))
