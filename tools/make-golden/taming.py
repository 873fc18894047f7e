"""Writes tests/golden/taming/: a checkpoint as PyTorch Lightning saves VQGAN, in both formats, with
what stands beside its state_dict. Run: python tools/make-golden/taming.py

The model has one level of 32 channels. So that the files are small all its tensors are views of one
storage: number (i, ..) of a tensor is (i + length of the tensor's name) / 64 - 1."""

import torch

CH, Z, WIDTH, CODES, NDF = 32, 8, 4, 10, 2
BASE = torch.arange(256) / 64 - 1


class ModelCheckpoint:
    """Lightning has such classes for keys."""


def conv(name, cin, cout, side, bias=True):
    return {f"{name}.weight": (cout, cin, side, side)} | ({f"{name}.bias": (cout,)} if bias else {})


def norm(name, c):
    return {f"{name}.weight": (c,), f"{name}.bias": (c,)}


def residual(name):
    return (norm(f"{name}.norm1", CH) | conv(f"{name}.conv1", CH, CH, 3)
            | norm(f"{name}.norm2", CH) | conv(f"{name}.conv2", CH, CH, 3))


def half(name, level, blocks, cin, cout):
    shapes = conv(f"{name}.conv_in", cin, CH, 3) | conv(f"{name}.conv_out", CH, cout, 3)
    for block in *(f"{level}.0.block.{i}" for i in range(blocks)), "mid.block_1", "mid.block_2":
        shapes |= residual(f"{name}.{block}")
    shapes |= norm(f"{name}.norm_out", CH) | norm(f"{name}.mid.attn_1.norm", CH)
    for part in "q", "k", "v", "proj_out":
        shapes |= conv(f"{name}.mid.attn_1.{part}", CH, CH, 1)
    return shapes


def evaluate(name):
    shapes = conv(f"{name}.0", 3, NDF, 4) | conv(f"{name}.2", NDF, 2 * NDF, 4, False)
    for part in "weight", "bias", "running_mean", "running_var":
        shapes[f"{name}.3.{part}"] = (2 * NDF,)
    return shapes | conv(f"{name}.5", 2 * NDF, 1, 4)


def view(name, shape):
    return BASE.as_strided(shape, (1,) + (0,) * (len(shape) - 1), len(name))


shapes = half("encoder", "down", 1, 3, Z) | half("decoder", "up", 2, Z, 3)
shapes |= conv("quant_conv", Z, WIDTH, 1) | conv("post_quant_conv", WIDTH, Z, 1)
shapes |= {"quantize.embedding.weight": (CODES, WIDTH)}
shapes |= evaluate("loss.discriminator.main")
shapes |= conv("loss.perceptual_loss.net.slice1.0", 3, 4, 3)
state = {name: view(name, shape) for name, shape in shapes.items()}
state["loss.discriminator.main.3.num_batches_tracked"] = torch.tensor(7)
checkpoint = {
    "epoch": 3, "global_step": 7, "pytorch-lightning_version": "1.0.8", "state_dict": state,
    "callbacks": {ModelCheckpoint: {"best_model_score": torch.tensor(0.5)}},
    "optimizer_states": [{"state": {0: {"step": 7, "exp_avg": torch.zeros(2)}}}],
    "lr_schedulers": []}
torch.save(checkpoint, "tests/golden/taming/last.ckpt")
torch.save(checkpoint, "tests/golden/taming/last-legacy.ckpt",
           _use_new_zipfile_serialization=False)
