"""tests/golden/muon.safetensors: ten steps of torch.optim.Muon from given gradients.
Run: python tools/make-golden/muon.py

torch's iteration runs in bfloat16. Here its own code is also run in float64, by giving it another
torch.bfloat16: that is what qkv is compared with. The bfloat16 result stands beside it."""

import torch
import torch.optim._muon as muon
from safetensors.torch import save_file

STEPS = 10
# name: shape, and the rows of the matrices that the parameter holds.
PARAMS = {
    "wide": ((7, 20), [7]),
    "tall": ((24, 5), [24]),
    "square": ((16, 16), [16]),
    "packed": ((12, 8), [6, 3, 3]),
    "window": ((6, 3, 3, 4), [6]),
}
# name: arguments; tests/parity/test_muon_golden.c has the same rows.
VARIANTS = {
    "default": dict(lr=0.02),
    "plain": dict(lr=0.02, momentum=0.9, nesterov=False, weight_decay=0.0),
    "match": dict(lr=0.02, adjust_lr_fn="match_rms_adamw", weight_decay=0.3),
    "spectral": dict(lr=0.02, adjust_lr_fn="spectral_unclamped", ns_steps=3, eps=20.0),
}


class Precise:
    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


g = torch.Generator().manual_seed(21)
start = {k: torch.randn(shape, generator=g) for k, (shape, _) in PARAMS.items()}
grads = {k: torch.randn(STEPS, *shape, generator=g) for k, (shape, _) in PARAMS.items()}
out = {f"start.{k}": v for k, v in start.items()}
out |= {f"grads.{k}": v for k, v in grads.items()}


def run(name, kwargs, dtype):
    for k, (shape, rows) in PARAMS.items():
        # A matrix is a parameter of its own; a window is flattened.
        parts = [
            torch.nn.Parameter(x.clone().to(dtype))
            for x in start[k].reshape(shape[0], -1).split(rows)
        ]
        opt = torch.optim.Muon(parts, **kwargs)
        trace = []
        for i in range(STEPS):
            for p, x in zip(parts, grads[k][i].reshape(shape[0], -1).split(rows)):
                p.grad = x.clone().to(dtype)
            opt.step()
            trace.append(torch.cat([p.detach().clone() for p in parts]).reshape(shape))
        out[f"{name}.{k}"] = torch.stack(trace)


for name, kwargs in VARIANTS.items():
    muon.torch = Precise()
    run(name, kwargs, torch.float64)
    muon.torch = torch
    run(f"{name}_bf16", kwargs, torch.float32)

file = "tests/golden/muon.safetensors"
save_file({k: v.contiguous().to(torch.float32) for k, v in out.items()}, file)
print(len(out), "tensors")
