"""Numbers that a rule gives, for recipes whose models would be larger than their results: both
sides compute them, and golden files hold results alone (tests/support/rule.h)."""

import numpy as np
import torch

SAMPLES = 64


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


def samples(name, gradient):
    """What is kept of a gradient: 64 of its numbers (all, if there are fewer) and the largest; its
    product with noise("dot." + name)."""
    g = gradient.flatten()
    n = len(g)
    at = [i * n // SAMPLES for i in range(SAMPLES)] if n > SAMPLES else list(range(n))
    return {f"grad.{name}": torch.cat([g[at], g.abs().max()[None]]),
            f"dot.{name}": g @ noise(f"dot.{name}", n).double()}
