"""mae.py - masked autoencoders of images."""
import ctypes
import os
import shutil

import numpy as np
import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining

from .evaluate import (MaeMasks, Tape, check_close, check_prepared, convert, empty_folder, int32s,
                    open_model, tensors_of)


def qkv_patches(qkv, folder, pixels, noise, kept):
    """Every patch as the model has it, of images (B, C, H, W) and noise (B, patches)."""
    order = int32s(noise.argsort(1).flatten().tolist())
    masks = MaeMasks(len(pixels), noise.shape[1], kept, order)
    with Tape(qkv.library, folder) as t:
        x = t.reals(pixels.permute(0, 2, 3, 1))
        encoded = t.call("qkv_mae_encode", x, ctypes.byref(masks))
        decoded = t.call("qkv_mae_decode", encoded, ctypes.byref(masks))
        loss = t.read(t.call("qkv_mae_loss", decoded, x, ctypes.byref(masks)), 1)
        numbers = pixels[0].numel() // noise.shape[1]
        return t.read(t.call("qkv_mae_patches", decoded), *noise.shape, numbers), loss


def check_patches(qkv, folder, model):
    c = model.config
    patches = (c.image_size // c.patch_size) ** 2
    pixels = torch.randn(2, c.num_channels, c.image_size, c.image_size)
    noise = torch.rand(2, patches)
    with torch.no_grad():
        expected = model(pixel_values=pixels, noise=noise)
    got, loss = qkv_patches(qkv, folder, pixels, noise, int(patches * (1 - c.mask_ratio)))
    check_close(f"patches {tuple(got.shape)}", got, expected.logits)
    check_close("loss", loss, expected.loss[None])


# ---- trained here  ---------------------------------------------

TRAINED = [("colour", 3, []), ("grey, normed patches", 1, ["--set", "num_channels=1", "--set",
                                                           "norm_pix_loss=true"])]


def write_images(scratch, channels):
    """An idx file of noise."""
    path = os.path.join(scratch, "images.idx")
    shape = (60, 16, 16, 3) if channels == 3 else (60, 16, 16)
    data = np.random.default_rng(7).integers(0, 256, shape, np.uint8)
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + data.tobytes())
    return path


def trained(qkv, _, scratch):
    for name, channels, flags in TRAINED:
        print(f"mae-trained: {name}")
        folder = os.path.join(scratch, "trained")
        shutil.rmtree(folder, ignore_errors=True)
        qkv.run("train", "reconstruct", "--images", write_images(scratch, channels), "--out",
                folder, "--model", "nano", "--steps", 10, *flags)
        check_patches(qkv, folder, open_model(ViTMAEForPreTraining, folder))
        if channels == 3: # its processors read no grey ones
            check_prepared(folder, 16)


# ---- made by transformers  ---------------------------------------------

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 80, "decoder_hidden_size": 32, "decoder_num_hidden_layers": 2,
         "decoder_num_attention_heads": 2, "decoder_intermediate_size": 60, "image_size": 32,
         "patch_size": 4}
MADE = [
    ("small", SMALL),
    ("grey, normed patches, gelu_new", SMALL | {
        "num_channels": 1, "norm_pix_loss": True, "hidden_act": "gelu_new", "qkv_bias": False,
        "mask_ratio": 0.6, "layer_norm_eps": 1e-6}),
    ("ViT-MAE-base", {}),
]


def made(qkv, _, scratch):
    for name, fields in MADE:
        print(f"mae-made: {name}")
        torch.manual_seed(7)
        folder = empty_folder(scratch, "made")
        model = ViTMAEForPreTraining(ViTMAEConfig(**fields)).eval()
        for p in model.parameters(): # biases and norms at their first values would hide mistakes
            if p.ndim == 1:
                p.data += 0.1 * torch.randn(p.shape)
        model.save_pretrained(folder)
        check_patches(qkv, folder, model)
        # transformers 5 misspells the names of the decoder, which convert puts right
        right = {k.replace("decoder_encoder.layer", "decoder_layers"): x
                 for k, x in tensors_of(folder).items()}
        out = convert(qkv, folder, scratch, "f32", 0, torch.float32, right)
        check_patches(qkv, out, open_model(ViTMAEForPreTraining, out))
