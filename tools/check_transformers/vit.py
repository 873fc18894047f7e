"""vit.py - classifiers of images."""
import json
import os
import shutil

import numpy as np
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

from .evaluate import (Tape, check_close, check_prepared, convert, empty_folder, open_model,
                       tensors_of)


def qkv_logits(qkv, folder, pixels, classes):
    """Of images (B, C, H, W)."""
    with Tape(qkv.library, folder) as t:
        x = t.reals(pixels.permute(0, 2, 3, 1))
        return t.read(t.call("qkv_vit_logits", x), len(pixels), classes)


def check_logits(qkv, folder, model):
    c = model.config
    pixels = torch.randn(2, c.num_channels, c.image_size, c.image_size)
    with torch.no_grad():
        expected = model(pixel_values=pixels).logits
    check_close(f"logits {tuple(expected.shape)}",
                qkv_logits(qkv, folder, pixels, expected.shape[1]), expected)


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
        check_logits(qkv, folder, model)
        check_probabilities(qkv, folder, model, scratch, data[0])
        if channels == 3: # its processors read no grey ones
            check_prepared(folder, 16)


# ---- made by transformers  ---------------------------------------------

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 80, "image_size": 32, "patch_size": 4}
MADE = [
    ("small", SMALL | {"id2label": {0: "cat", 1: "dog", 2: "owl"}}),
    ("grey, gelu_new", SMALL | {"num_channels": 1, "hidden_act": "gelu_new", "qkv_bias": False,
                                "layer_norm_eps": 1e-6}),
    ("ViT-B/16", {"num_labels": 1000}),
]


def made(qkv, _, scratch):
    for name, fields in MADE:
        print(f"vit-made: {name}")
        torch.manual_seed(7)
        folder = empty_folder(scratch, "made")
        model = ViTForImageClassification(ViTConfig(**fields)).eval()
        for p in model.parameters(): # biases and norms at their first values would hide mistakes
            if p.ndim == 1:
                p.data += 0.1 * torch.randn(p.shape)
        model.save_pretrained(folder)
        check_logits(qkv, folder, model)
        out = convert(qkv, folder, scratch, "f32", 0, torch.float32, tensors_of(folder))
        check_logits(qkv, out, open_model(ViTForImageClassification, out))
