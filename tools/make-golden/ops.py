"""tests/golden/ops.safetensors: every op's outputs and gradients by PyTorch in double precision,
from inputs and cotangents that are exact in half precision. Run: python tools/make-golden/ops.py

A case NAME has NAME.in0.., NAME.out0.., NAME.cot0.. (the gradients given to the outputs) and
NAME.grad0.. (of the inputs); tests/parity/test_ops_golden.c has the same cases."""

import math

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(7)
out = {}

IDS = torch.tensor([[3, 0, 3, 18, 1, 3, 7], [2, 2, 11, 5, 18, 0, 1]])
PLACES = torch.arange(7).repeat(2, 1)
TARGETS = torch.tensor([4, 0, -100, 36, 2, -100, 17, 20, 5, 5, 31])
LENGTHS = torch.tensor([9, 70])
Q_OFFSETS, K_OFFSETS = [0, 20, 51, 70], [0, 5, 40, 90]


def rand(*shape, scale=1.0):
    return (torch.randn(shape) * scale).half()


def case(name, fn, *inputs):
    inputs = [x.half() for x in inputs]
    xs = [x.double().requires_grad_() for x in inputs]
    ys = fn(*xs)
    ys = ys if isinstance(ys, tuple) else (ys,)
    cots = [rand(*y.shape) for y in ys]
    torch.autograd.backward(ys, [c.double() for c in cots])
    for i, x in enumerate(xs):
        out[f"{name}.in{i}"] = inputs[i]
        out[f"{name}.grad{i}"] = (x.grad if x.grad is not None else torch.zeros_like(x)).float()
    for i, y in enumerate(ys):
        out[f"{name}.out{i}"] = y.detach().float()
        out[f"{name}.cot{i}"] = cots[i]


# ---- arithmetic, products, activations --------------------------------------------------------

case("add", lambda a, b: a + b, rand(2, 7, 19), rand(7, 1))
case("sub", lambda a, b: a - b, rand(7, 19), rand(3, 1, 19))
case("mul", lambda a, b: a * b, rand(2, 7, 19), rand(19))
case("div", lambda a, b: a / b, rand(7, 19), rand(7, 19).abs() + 0.5)
case("exp", torch.exp, rand(5, 19))
case("mean_axis", lambda x: x.mean(1), rand(3, 7, 19))
case("mean", torch.mean, rand(3, 7, 19))
case("matmul", lambda a, b: a @ b.mT, rand(3, 7, 19), rand(3, 5, 19))
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
for name, act in ACTIVATIONS.items():
    case(f"activate.{name}", act, rand(5, 37, scale=2.5))
case("gated", lambda g, u: F.silu(g) * u, rand(5, 37, scale=2), rand(5, 37))
case("softmax", lambda x: x.softmax(-1), rand(5, 37, scale=4))
case("linear", F.linear, rand(2, 7, 19), rand(33, 19), rand(33))
case("linear.gelu", lambda x, w, b: F.gelu(F.linear(x, w, b)), rand(7, 19), rand(33, 19), rand(33))
case("embedding", lambda w, p: 1.5 * F.embedding(IDS, w) + F.embedding(PLACES, p),
     rand(19, 21), rand(8, 21))

# ---- norms and rotary -------------------------------------------------------------------------


def rms(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def residual_norm(x, r, w, b):
    s = x + r
    return F.layer_norm(s, s.shape[-1:], w, b, 1e-5), s


def rotary(x):
    width = 12
    i = torch.arange(width // 2, dtype=torch.float64)
    angle = PLACES.double()[..., None, None] * 100.0 ** (-2 * i / width)
    lo, hi, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin, rest], -1)


case("layer_norm", lambda x, w, b: F.layer_norm(x, (37,), w, b, 1e-5),
     rand(2, 5, 37), rand(37), rand(37))
case("rms_norm", lambda x, w: rms(x, w, 1e-6), rand(5, 37), rand(37))
case("residual_norm", residual_norm, rand(5, 37), rand(5, 37), rand(37), rand(37))
case("l2_normalize", lambda x: F.normalize(x, dim=-1), rand(5, 37))
case("rotary", rotary, rand(2, 7, 3, 16))

# ---- losses -----------------------------------------------------------------------------------


def paper_smoothing(x, eps):
    keep = TARGETS != -100
    logp, t = x.log_softmax(-1)[keep], TARGETS[keep]
    q = torch.full_like(logp, eps / (x.shape[-1] - 1)).scatter(1, t[:, None], 1 - eps)
    return -(q * logp).sum(-1).mean()


def infonce(q, k):
    return F.cross_entropy(F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).T / 0.2,
                           torch.arange(len(q)))


def ntxent(a, b):
    z = F.normalize(torch.cat([a, b]), dim=-1)
    sim = (z @ z.T / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(sim, torch.arange(len(z)).roll(len(a)))


case("cross_entropy", lambda x: F.cross_entropy(x, TARGETS), rand(11, 37, scale=3))
case("cross_entropy.smooth", lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1),
     rand(11, 37, scale=3))
case("cross_entropy.paper", lambda x: paper_smoothing(x, 0.1), rand(11, 37, scale=3))
case("cross_entropy.sum", lambda x: F.cross_entropy(x, TARGETS, reduction="sum"),
     rand(11, 37, scale=3))
case("classifier", lambda x, w, b: F.cross_entropy(F.linear(x, w, b), TARGETS, label_smoothing=0.1),
     rand(11, 19), rand(37, 19, scale=0.5), rand(37))
case("mse", F.mse_loss, rand(5, 37), rand(5, 37))
case("l1", F.l1_loss, rand(5, 37), rand(5, 37))
case("huber", lambda x, t: F.huber_loss(x, t, delta=0.7), rand(5, 37), rand(5, 37))
case("binary", F.binary_cross_entropy_with_logits, rand(5, 37, scale=4), torch.rand(5, 37))
case("infonce", infonce, rand(9, 21), rand(9, 21))
case("ntxent", ntxent, rand(9, 21), rand(9, 21))

# ---- attention: q (B, T, H, D), as in qkv ------------------------------------------------------


def attention(q, k, v, **options):
    groups = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(groups, 2), v.repeat_interleave(groups, 2)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)


def packed(q, k, v, causal):
    rows = []
    for i in range(len(Q_OFFSETS) - 1):
        a = slice(Q_OFFSETS[i], Q_OFFSETS[i + 1])
        b = a if causal else slice(K_OFFSETS[i], K_OFFSETS[i + 1])
        rows.append(attention(q[None, a], k[None, b], v[None, b], is_causal=causal)[0])
    return torch.cat(rows)


def qkv(T, S, H, Hkv, D, Dv, B=2):
    return rand(B, T, H, D), rand(B, S, Hkv, D), rand(B, S, Hkv, Dv)


seen = (torch.arange(70)[None, :] < LENGTHS[:, None])[:, None, None, :]
case("attention.self", attention, *qkv(70, 70, 2, 2, 16, 16, B=1))
case("attention.cross", attention, *qkv(7, 45, 3, 3, 8, 8))
case("attention.causal", lambda q, k, v: attention(q, k, v, is_causal=True),
     *qkv(70, 70, 1, 1, 16, 16))
case("attention.groups", lambda q, k, v: attention(q, k, v, is_causal=True),
     *qkv(33, 33, 6, 2, 8, 8))
case("attention.widths", attention, *qkv(19, 21, 2, 2, 12, 20))
case("attention.lengths", lambda q, k, v: attention(q, k, v, attn_mask=seen),
     *qkv(20, 70, 2, 2, 8, 8))
case("attention.unscaled", lambda q, k, v: attention(q, k, v, scale=1.0), *qkv(19, 21, 2, 2, 8, 8))
case("attention.bias", lambda q, k, v, b: attention(q, k, v, attn_mask=b),
     *qkv(19, 21, 2, 2, 8, 8), rand(1, 2, 19, 21))
case("attention.packed", lambda q, k, v: packed(q, k, v, True),
     rand(70, 2, 8), rand(70, 2, 8), rand(70, 2, 8))
case("attention.packed_cross", lambda q, k, v: packed(q, k, v, False),
     rand(70, 2, 8), rand(90, 2, 8), rand(90, 2, 8))



def everything(q, k, v, bias):
    """Packed, causal from the end, some keys hidden, shared keys, a bias and a scale. Queries that
    see nothing give zeros."""
    rows = []
    for n, seen in enumerate([4, 35, 41]):
        a, b = slice(Q_OFFSETS[n], Q_OFFSETS[n + 1]), slice(K_OFFSETS[n], K_OFFSETS[n + 1])
        T, S = a.stop - a.start, b.stop - b.start
        i, j = torch.arange(T)[:, None], torch.arange(S)[None, :]
        see = (j <= i + S - T) & (j < seen)
        groups = q.shape[1] // k.shape[1]
        kk, vv = (x[b].repeat_interleave(groups, 1) for x in (k, v))
        scores = torch.einsum("thd,shd->hts", q[a], kk) * 0.3 + bias[n, :, :T, :S]
        weights = scores.masked_fill(~see, -1e30).softmax(-1) * see
        rows.append(torch.einsum("hts,shd->thd", weights, vv))
    return torch.cat(rows)


torch.manual_seed(8)
case("attention.everything", everything, rand(70, 4, 8), rand(90, 2, 8), rand(90, 2, 6),
     rand(3, 4, 31, 50))

# ---- targets that are distributions -----------------------------------------------------------

torch.manual_seed(9)
case("cross_entropy.soft", lambda x, y: F.cross_entropy(x, y.detach()),
     rand(6, 11, scale=3), rand(6, 11).softmax(-1))
case("cross_entropy.soft_smooth",
     lambda x, y: F.cross_entropy(x, y.detach(), label_smoothing=0.1),
     rand(6, 11, scale=3), 0.75 * torch.eye(6, 11) + 0.25 * torch.eye(6, 11).roll(5, 1))

# ---- images: (B, H, W, C), channels last, as in qkv -----------------------------------------


def first(x):
    return x.permute(0, 3, 1, 2)


def last(x):
    return x.permute(0, 2, 3, 1)


def patchify(x, p):
    B, H, W, C = x.shape
    x = x.reshape(B, H // p, p, W // p, p, C).transpose(2, 3)
    return x.reshape(B, (H // p) * (W // p), p * p * C)


def positions(table, how):
    grid = first(table[1:].reshape(1, 4, 3, -1))
    grid = last(F.interpolate(grid, size=(5, 7), mode=how, align_corners=False))
    return torch.cat([table[:1], grid.flatten(0, 2)])


torch.manual_seed(10)
case("conv2d", lambda x, w, b: last(F.conv2d(first(x), first(w), b, stride=2, padding=1)),
     rand(2, 6, 5, 3), rand(4, 3, 3, 3), rand(4))
case("max_pool2d", lambda x: last(F.max_pool2d(first(x), 3, 2, 1)), rand(2, 6, 5, 3))
case("mean_pool2d", lambda x: last(F.avg_pool2d(first(x), 3, 2, 1)), rand(2, 6, 5, 3))
case("patchify", lambda x: patchify(x, 2), rand(2, 4, 6, 3))
for how in "bilinear", "bicubic":
    for size in (5, 7), (2, 3):
        case(f"interpolate.{how}{size[0]}", lambda x: last(F.interpolate(
            first(x), size=size, mode=how, align_corners=False)), rand(2, 3, 4, 2))
    case(f"positions.{how}", lambda x: positions(x, how), rand(13, 4))
case("batch_norm", lambda x, w, b: last(F.batch_norm(first(x), None, None, w, b, True)),
     rand(2, 4, 3, 5), rand(5), rand(5))
layer = torch.nn.BatchNorm2d(5).double()
for i in range(2):
    layer(first(out["batch_norm.in0"].double() + i))
for name in "running_mean", "running_var":
    out[f"batch_norm.{name}"] = layer.state_dict()[name].float()
out["batch_norm.eval"] = last(layer.eval()(first(out["batch_norm.in0"].double()))).detach().float()

# ---- positions --------------------------------------------------------------------------------


def halves(position, freq):
    angle = position[:, None] * freq[None, :]
    return torch.cat([angle.sin(), angle.cos()], 1)


C, half = 16, 8
position = torch.arange(11, dtype=torch.float64) + 3
i = torch.arange(half, dtype=torch.float64)
table = halves(position, 10000 ** (-2 * i / C))
out["sinusoid.marian"] = table.float()
out["sinusoid.paper"] = torch.stack([table[:, :half], table[:, half:]], 2).flatten(1).float()
out["sinusoid.fairseq"] = halves(position, torch.exp(-i * math.log(10000) / (half - 1))).float()
freq = 10000 ** (-torch.arange(C // 4, dtype=torch.float64) / (C // 4))
at = torch.arange(12, dtype=torch.float64)
out["sinusoid.mae"] = torch.cat([halves(at % 4, freq), halves(at // 4, freq)], 1).float()

# ---- of VQGAN --------------------------------------------------------------------------------

torch.manual_seed(11)
for name, after in ("group_norm", torch.clone), ("group_norm.silu", F.silu):
    case(name, lambda x, w, b: last(after(F.group_norm(first(x), 3, w, b, 1e-6))),
         rand(2, 3, 5, 6), rand(6), rand(6))
case("upsample", lambda x: last(F.interpolate(first(x), scale_factor=2.0)), rand(2, 3, 2, 3))
case("activate.leaky_relu", lambda x: F.leaky_relu(x, 0.2), rand(5, 7))

for size in (5, 7), (2, 3):
    case(f"interpolate.antialiased{size[0]}", lambda x: last(F.interpolate(
        first(x), size=size, mode="bicubic", align_corners=False, antialias=True)),
         rand(2, 3, 4, 2))

save_file({k: v.contiguous() for k, v in out.items()}, "tests/golden/ops.safetensors")
