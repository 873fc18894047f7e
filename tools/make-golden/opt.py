"""tests/golden/opt.safetensors: ten steps of torch's optimisers from given gradients, and
learning-rate schedules of torch and transformers. Run: python tools/make-golden/opt.py"""

import math

import torch
import transformers.optimization as hf
from safetensors.torch import save_file

STEPS = 10
out = {}

# name: (optimiser, its arguments); tests/parity/test_opt_golden.c has the same rows.
VARIANTS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.05)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd_dampening": (
        torch.optim.SGD,
        dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05),
    ),
    "sgd_nesterov": (
        torch.optim.SGD,
        dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
    ),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop_decay": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, eps=1e-6, weight_decay=0.05)),
    "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.01, momentum=0.9)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.01, centered=True)),
    "rmsprop_all": (
        torch.optim.RMSprop,
        dict(lr=0.01, alpha=0.95, eps=1e-5, centered=True, momentum=0.8, weight_decay=0.05),
    ),
    "adam": (torch.optim.Adam, dict(lr=1e-2)),
    "adam_decay": (torch.optim.Adam, dict(lr=1e-2, weight_decay=0.05)),
    "adam_paper": (torch.optim.Adam, dict(lr=1e-2, betas=(0.9, 0.98), eps=1e-9)),
    "adamw": (torch.optim.AdamW, dict(lr=1e-2)),
    "adamw_gpt": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)),
}

g = torch.Generator().manual_seed(20)
start = {"w": torch.randn(13, 11, generator=g), "b": torch.randn(9, generator=g)}
# Of very different sizes, so that eps and the corrections show.
scale = {k: torch.exp(3 * torch.randn(v.shape, generator=g) - 2) for k, v in start.items()}
grads = [
    {k: torch.randn(v.shape, generator=g) * scale[k] for k, v in start.items()}
    for _ in range(STEPS)
]
for k, v in start.items():
    out[f"start.{k}"] = v.clone()
    out[f"grads.{k}"] = torch.stack([step[k] for step in grads])


def run(name, make, clip=0.0, rate=None):
    params = {k: torch.nn.Parameter(v.clone()) for k, v in start.items()}
    opt = make(params)
    trace = {k: [] for k in params}
    norms = []
    for i in range(STEPS):
        for k, p in params.items():
            p.grad = grads[i][k].clone()
        if rate is not None:
            for group in opt.param_groups:
                group["lr"] = rate[i]
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(params.values(), clip))
        opt.step()
        for k, p in params.items():
            trace[k].append(p.detach().clone())
    for k in params:
        out[f"{name}.{k}"] = torch.stack(trace[k])
    if clip:
        out[f"{name}.norms"] = torch.stack(norms)


for name, (cls, kwargs) in VARIANTS.items():
    run(name, lambda ps: cls(ps.values(), foreach=False, **kwargs))


# ---- schedules ----

LR, MIN, WARMUP, TOTAL, DECAY, WIDTH, LAST = 3e-3, 3e-4, 12, 100, 25, 64, 120


def rates(make, lr=LR, first=0):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    sched = make(opt)
    values = []
    for _ in range(LAST + first):
        values.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return torch.tensor(values[first:], dtype=torch.float32)


def nanogpt(it):
    if it < WARMUP:
        return LR * (it + 1) / (WARMUP + 1)
    if it > TOTAL:
        return MIN
    r = (it - WARMUP) / (TOTAL - WARMUP)
    return MIN + 0.5 * (1 + math.cos(math.pi * r)) * (LR - MIN)


def noam(step):  # The Annotated Transformer's, from step 1
    step = max(step, 1)
    return WIDTH**-0.5 * min(step**-0.5, step * WARMUP**-1.5)


out["schedule.constant"] = rates(lambda o: hf.get_constant_schedule_with_warmup(o, WARMUP))
out["schedule.linear"] = rates(lambda o: hf.get_linear_schedule_with_warmup(o, WARMUP, TOTAL))
out["schedule.linear_min"] = rates(
    lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, MIN / LR, total_iters=TOTAL)
)
out["schedule.cosine"] = rates(lambda o: hf.get_cosine_schedule_with_warmup(o, WARMUP, TOTAL))
out["schedule.cosine_min"] = rates(
    lambda o: hf.get_cosine_with_min_lr_schedule_with_warmup(o, WARMUP, TOTAL, min_lr=MIN)
)
out["schedule.cosine_annealing"] = rates(
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, TOTAL, eta_min=MIN)
)[:TOTAL].clone()
out["schedule.cosine_gpt"] = torch.tensor([nanogpt(i) for i in range(LAST)])
out["schedule.inverse_sqrt"] = rates(lambda o: hf.get_inverse_sqrt_schedule(o, WARMUP))
out["schedule.noam"] = rates(
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, noam), lr=2.0, first=1
)
out["schedule.wsd"] = rates(
    lambda o: hf.get_wsd_schedule(
        o, WARMUP, DECAY, num_training_steps=TOTAL, decay_type="1-sqrt", min_lr_ratio=MIN / LR
    )
)

# Everything at once: clipping, decay for the matrix alone, a schedule.
run(
    "adamw_run",
    lambda ps: torch.optim.AdamW(
        [dict(params=[ps["w"]], weight_decay=0.1), dict(params=[ps["b"]], weight_decay=0.0)],
        betas=(0.9, 0.95),
        foreach=False,
    ),
    clip=1.0,
    rate=[nanogpt(i) for i in range(STEPS)],
)

file = "tests/golden/opt.safetensors"
save_file({k: v.contiguous().to(torch.float32) for k, v in out.items()}, file)
print(len(out), "tensors")
