"""Numbers that a rule gives, for recipes whose models would be larger than their results: both
sides compute them, and golden files hold results alone (tests/support/rule.h)."""

import numpy as np
import torch
from safetensors.torch import save_file

SAMPLES = 14


def noise(name, *shape):
    """Evenly in [-1, 1): a hash of the number's place, mixed with that of the name."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    x = np.arange(np.prod(shape, dtype=int), dtype=np.uint64) * 0x9E3779B1 & 0xFFFFFFFF ^ h
    x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
    x = x ^ x >> 16
    return torch.from_numpy((x.astype(np.float64) / 2**31 - 1).astype(np.float32).reshape(shape))


def fill(model):
    """Every parameter: matrices of a size that matters, biases small, norms around 1."""
    for name, p in model.named_parameters():
        scale = 0.3 if p.ndim == 1 else 1.7 * p[0].numel() ** -0.5
        is_norm = p.ndim == 1 and name.endswith("weight")
        p.data = noise(name, *p.shape) * np.float32(scale) + np.float32(is_norm)


def ids(name, vocab, *shape):
    """Whole numbers from 0 to vocab - 1."""
    return ((noise(name, *shape).double() + 1) / 2 * vocab).long()


def row(name, tensor):
    """What is kept of a tensor: 14 of its numbers and the largest; its product with noise("dot." +
    name)."""
    x = tensor.detach().double().flatten()
    n = len(x)
    at = [i * n // SAMPLES for i in range(SAMPLES)]
    return torch.cat([x[at], x.abs().max()[None], (x @ noise(f"dot.{name}", n).double())[None]])


def table(tensors):
    """A row of each, in the order of their names."""
    return torch.stack([row(name, tensors[name]) for name in sorted(tensors)])


def gradients(model):
    return table({name: p.grad for name, p in model.named_parameters() if p.grad is not None})


def save(tensors, name):
    tensors = {k: v if v.dtype == torch.int32 else v.detach().float() for k, v in tensors.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, f"tests/golden/{name}.safetensors")
