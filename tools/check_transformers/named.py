"""named.py - other libraries' names: timm's, and those of facebookresearch/mae."""
import os
import zipfile

import torch
from safetensors.torch import load_file, save_file
from transformers import ViTForImageClassification, ViTMAEForPreTraining, ViTMAEConfig

from .evaluate import check, check_close, empty_folder, open_model, tensors_of
from .mae import SMALL, check_patches
from .vit import qkv_outputs

# Heads of 64, which is what shapes are taken to mean, and a network that says otherwise.
TINY = "vit_tiny_patch16_224"
TIMM = [
    ("of 1000 classes", TINY, {}, []),
    ("of 10 classes, patches of 32", "vit_small_patch32_224", {"num_classes": 10}, []),
    ("3 heads of 16, grey, no biases", TINY, {
        "img_size": 32, "patch_size": 4, "in_chans": 1, "num_classes": 7, "embed_dim": 48,
        "depth": 2, "num_heads": 3, "qkv_bias": False, "mlp_ratio": 2},
     ["--set", "num_attention_heads=3"]),
]


def stir(model):
    """Biases and norms at their first values would hide mistakes."""
    for p in model.parameters():
        if p.ndim == 1:
            p.data += 0.1 * torch.randn(p.shape)
    return model.eval()


def check_same(name, got, expected):
    same = got.keys() == expected.keys() and all(torch.equal(got[k], expected[k]) for k in got)
    check(f"{name}: the same keys, bit-equal", same, "" if same else
          f"{sorted(got.keys() ^ expected.keys())[:4]}")


def check_timm(qkv, model, flags, scratch):
    side, channels = model.patch_embed.img_size[0], model.patch_embed.proj.in_channels
    pixels = torch.randn(2, channels, side, side)
    with torch.no_grad():
        expected = model(pixels)
    files = {".safetensors": lambda path: save_file(model.state_dict(), path),
             ".pth": lambda path: torch.save({"state_dict": model.state_dict(), "epoch": 3}, path),
             ".bin": lambda path: torch.save(model.state_dict(), path)}
    for end, save in files.items():
        path, out = os.path.join(scratch, "timm" + end), os.path.join(scratch, "from" + end)
        save(path)
        qkv.run("convert", path, out, *flags)
        got = qkv_outputs(qkv, out, pixels, "qkv_vit_logits", expected.shape[1])
        check_close(f"{end} -> logits", got, expected)
    with torch.no_grad():
        there = open_model(ViTForImageClassification, out)(pixel_values=pixels).logits
    check_close("transformers' logits", there, expected)
    back = os.path.join(scratch, "back.safetensors")
    qkv.run("convert", out, back, "--to", "timm")
    check_same("--to timm", load_file(back), model.state_dict())
    for p in model.parameters():
        p.data.zero_()
    model.load_state_dict(load_file(back))
    with torch.no_grad():
        check_close("timm's logits", model(pixels), expected)


def timms(qkv, _, scratch):
    import timm # pylint: disable=import-outside-toplevel # the other parts do without

    for name, size, fields, flags in TIMM:
        print(f"timm: {size}, {name}")
        torch.manual_seed(7)
        model = stir(timm.create_model(size, **fields))
        check_timm(qkv, model, flags, empty_folder(scratch, "timm"))


MAE = [
    ("small", SMALL | {"layer_norm_eps": 1e-6, "hidden_size": 128, "num_attention_heads": 2,
                       "decoder_hidden_size": 64}),
    ("3 and 5 heads, grey, normed patches", SMALL | {
        "layer_norm_eps": 1e-6, "num_attention_heads": 3, "decoder_hidden_size": 40,
        "decoder_num_attention_heads": 5, "num_channels": 1, "norm_pix_loss": True}),
]


def maes(qkv, _, scratch):
    for name, fields in MAE:
        print(f"mae: {name}")
        torch.manual_seed(7)
        folder = empty_folder(scratch, "mae")
        made, there = os.path.join(folder, "made"), os.path.join(folder, "there.safetensors")
        model = stir(ViTMAEForPreTraining(ViTMAEConfig(**fields)))
        model.save_pretrained(made)
        qkv.run("convert", made, there, "--to", "mae")
        c = model.config
        heads = ["--set", f"num_attention_heads={c.num_attention_heads}",
                 "--set", f"decoder_num_attention_heads={c.decoder_num_attention_heads}",
                 "--set", f"norm_pix_loss={str(c.norm_pix_loss).lower()}"]
        right = {k.replace("decoder_encoder.layer", "decoder_layers"): x
                 for k, x in tensors_of(made).items()}
        pth, own = os.path.join(folder, "there.pth"), os.path.join(folder, "own.pth")
        torch.save({"model": load_file(there), "epoch": 7}, pth)
        qkv.run("convert", made, own, "--to", "mae")
        check_same("torch.load", torch.load(own)["model"], load_file(there))
        check_same("torch.load, mapped", torch.load(own, mmap=True)["model"], load_file(there))
        check("a sound archive", zipfile.ZipFile(own).testzip() is None)
        for path in there, pth, own:
            back = os.path.join(folder, "back-" + os.path.basename(path))
            qkv.run("convert", path, back, *heads)
            check_same(f"{os.path.basename(path)} and back", tensors_of(back), right)
        check_patches(qkv, back, open_model(ViTMAEForPreTraining, back))
