"""tests/golden/vqgan_step.safetensors: one whole step of taming-transformers' training, in torch:
the networks of vqgan.py and lpips.py, images of 8 bits by the rule of rule.py. The generator is
updated, images are decoded anew, the discriminator, in training throughout, is updated. Run:
python tools/make-golden/vqgan_step.py

generator.loss, .gradients   absolute error + LPIPS + w g + quantiser's, legacy; g = - mean
                             discriminator's of decoded, w = 0.8 |d(first two)| / (|dg| + 1e-4) at
                             the weight of the decoder's last layer
hinge., vanilla.             the discriminator's, on what is decoded after the update
after                        every second number of each parameter's row, after both updates, with
                             the hinge loss; NaN where the gradient is too small to say which way
                             Adam goes
running                      what the discriminator's batch norms have kept then: a row each

Adam(0.5, 0.9), rate 1e-4. In double precision."""

import copy

import torch
import torch.nn.functional as F

from lpips import LPIPS
from rule import SAMPLES, fill, ids, save, table
from vqgan import SIZE, VQModel, coded, first

PERCEPTUAL, ADVERSARIAL, CODEBOOK, RATE = 1.0, 0.8, 1.0, 1e-4
CHANNELS, CONVOLUTIONS = [16, 24, 32], [1, 2, 3]  # fewer: some pixels' are nearly all 0
LEAST, LEAST_SHARE = 1e-6, 1e-3  # of a gradient whose sign is sure; of its tensor's largest


def hinge(real, fake):
    return (F.relu(1 - real).mean() + F.relu(1 + fake).mean()) / 2


def vanilla(real, fake):
    return (F.softplus(-real).mean() + F.softplus(fake).mean()) / 2


def generator_loss(model, looks, x):
    evaluate, last = model.loss["discriminator"]["main"], model.decoder.conv_out.weight
    _, _, price, decoded = coded(model, x)
    unlike = (x - decoded).abs().mean() + PERCEPTUAL * looks(x, decoded)
    g = -evaluate(decoded).mean()
    print("unlike", unlike.item(), "g", g.item(), "price", price.item())
    of_unlike, of_g = (torch.autograd.grad(y, last, retain_graph=True)[0].norm()
                       for y in (unlike, g))
    weight = (of_unlike / (of_g + 1e-4)).clamp(0, 1e4) * ADVERSARIAL
    print("weight", weight.item())
    return unlike + weight * g + CODEBOOK * price


def disc_loss(model, x, loss):
    evaluate = model.loss["discriminator"]["main"]
    decoded = coded(model, x)[3].detach()
    real, fake = evaluate(x), evaluate(decoded)
    print("real", real.flatten().tolist(), "decoded", fake.flatten().tolist())
    return loss(real, fake)


def parameters(model, evaluates):
    return {k: p for k, p in model.named_parameters() if k.startswith("loss.") == evaluates}


def step(model, loss, evaluates):
    """Goes back from the loss and updates those parameters."""
    chosen = parameters(model, evaluates)
    optimizer = torch.optim.Adam(chosen.values(), lr=RATE, betas=(0.5, 0.9))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {"loss": loss, "gradients": table({k: p.grad for k, p in chosen.items()})}


def after(p):
    g, n = p.grad.flatten(), p.numel()
    sure = (g.abs() > LEAST) & (g.abs() > LEAST_SHARE * g.abs().max())
    at = [i * n // SAMPLES for i in range(0, SAMPLES, 2)]
    return torch.where(sure, p.detach().flatten(), float("nan"))[at]


model, looks = VQModel(), LPIPS(CHANNELS, CONVOLUTIONS)
for m in model, looks:
    fill(m)
    m.double().train()
x = first(ids("photos", 256, 2, SIZE, SIZE, 3)).double() / 127.5 - 1
out = {f"generator.{k}": v for k, v in step(model, generator_loss(model, looks, x), False).items()}
kept = {k: p.grad.clone() for k, p in parameters(model, False).items()}
other = copy.deepcopy(model)
out |= {f"vanilla.{k}": v for k, v in step(other, disc_loss(other, x, vanilla), True).items()}
out |= {f"hinge.{k}": v for k, v in step(model, disc_loss(model, x, hinge), True).items()}
for k, p in parameters(model, False).items():
    p.grad = kept[k]
named = dict(model.named_parameters())
out["after"] = torch.stack([after(named[k]) for k in sorted(named)])
print("sure", (~out["after"].isnan()).double().mean().item())
out["running"] = table({k: b for k, b in model.named_buffers() if b.ndim})
save(out, "vqgan_step")
