"""tests/golden/vqgan.safetensors: what a plain torch module of VQGAN's wiring, under
taming-transformers' names, makes of parameters and images that both sides compute by a rule
(rule.py), so that the file holds results alone. Run: python tools/make-golden/vqgan.py

z, codes, decoded     of 2 images of 16 x 16, channels last
logits                what the discriminator says of the images, in training
loss                  mean |decoded - image| + 2 quantiser's - 0.1 mean discriminator's of decoded
gradients             of that loss: a row of each tensor's (rule.py)

All in double precision."""

import torch.nn as nn
import torch.nn.functional as F

from rule import fill, gradients, noise, save

CH, MULT, BLOCKS, ATTENTION, SIZE, Z, WIDTH, CODES = 32, [1, 2], 1, [8], 16, 24, 16, 40
NDF, LAYERS, BETA = 8, 2, 0.25


def norm(c):
    return nn.GroupNorm(32, c, eps=1e-6)


class ResnetBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1, self.conv1 = norm(cin), nn.Conv2d(cin, cout, 3, 1, 1)
        self.norm2, self.conv2 = norm(cout), nn.Conv2d(cout, cout, 3, 1, 1)
        if cin != cout:
            self.nin_shortcut = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        h = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class AttnBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = norm(c)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (f(h).flatten(2) for f in (self.q, self.k, self.v))
        w = (q.transpose(1, 2) @ k * q.shape[1] ** -0.5).softmax(2)
        return x + self.proj_out((v @ w.transpose(1, 2)).reshape(x.shape))


class Sample(nn.Module):
    def __init__(self, c, up):
        super().__init__()
        self.up = up
        self.conv = nn.Conv2d(c, c, 3, 1, 1) if up else nn.Conv2d(c, c, 3, 2)

    def forward(self, x):
        if self.up:
            return self.conv(F.interpolate(x, scale_factor=2.0))
        return self.conv(F.pad(x, (0, 1, 0, 1)))


def middle(c):
    return nn.ModuleDict({"block_1": ResnetBlock(c, c), "attn_1": AttnBlock(c),
                          "block_2": ResnetBlock(c, c)})


class Half(nn.Module):
    """The encoder, or the decoder (up)."""

    def __init__(self, up):
        super().__init__()
        self.is_up, n = up, len(MULT)
        c = CH * MULT[-1] if up else CH
        self.conv_in = nn.Conv2d(Z if up else 3, c, 3, 1, 1)
        if up:
            self.mid = middle(c)
        levels = [None] * n
        for i in reversed(range(n)) if up else range(n):
            level = nn.ModuleDict({"block": nn.ModuleList(), "attn": nn.ModuleList()})
            for _ in range(BLOCKS + up):
                level["block"].append(ResnetBlock(c, CH * MULT[i]))
                c = CH * MULT[i]
                if SIZE >> i in ATTENTION:
                    level["attn"].append(AttnBlock(c))
            if (up and i) or (not up and i + 1 < n):
                level["upsample" if up else "downsample"] = Sample(c, up)
            levels[i] = level
        setattr(self, "up" if up else "down", nn.ModuleList(levels))
        if not up:
            self.mid = middle(c)
        self.norm_out, self.conv_out = norm(c), nn.Conv2d(c, 3 if up else Z, 3, 1, 1)

    def levels(self, h):
        for level in reversed(self.up) if self.is_up else self.down:
            for k, block in enumerate(level["block"]):
                h = block(h)
                if len(level["attn"]):
                    h = level["attn"][k](h)
            for name in "upsample", "downsample":
                h = level[name](h) if name in level else h
        return h

    def forward(self, x):
        h = self.conv_in(x)
        h = h if self.is_up else self.levels(h)
        for name in "block_1", "attn_1", "block_2":
            h = self.mid[name](h)
        h = self.levels(h) if self.is_up else h
        return self.conv_out(F.silu(self.norm_out(h)))


class VQModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Half(False), Half(True)
        self.quantize = nn.ModuleDict({"embedding": nn.Embedding(CODES, WIDTH)})
        self.quant_conv, self.post_quant_conv = nn.Conv2d(Z, WIDTH, 1), nn.Conv2d(WIDTH, Z, 1)
        main = [nn.Conv2d(3, NDF, 4, 2, 1), nn.LeakyReLU(0.2)]
        for i in range(1, LAYERS + 1):
            main += [nn.Conv2d(NDF << i - 1, NDF << i, 4, 2 if i < LAYERS else 1, 1, bias=False),
                     nn.BatchNorm2d(NDF << i), nn.LeakyReLU(0.2)]
        main.append(nn.Conv2d(NDF << LAYERS, 1, 4, 1, 1))
        self.loss = nn.ModuleDict({"discriminator": nn.ModuleDict({"main": nn.Sequential(*main)})})


def last(x):
    return x.permute(0, 2, 3, 1)


def first(x):
    return x.permute(0, 3, 1, 2)


def coded(model, pixels):
    """What is to be coded, its codes, what those cost, and the image, whose gradient goes past
    the codes."""
    table = model.quantize["embedding"].weight
    z = last(model.quant_conv(model.encoder(pixels)))
    distance = (z**2).sum(-1, keepdim=True) + (table**2).sum(1) - 2 * z @ table.T
    codes = distance.argmin(-1)
    near = distance.sort(-1).values
    gap = (near[..., 1] - near[..., 0]).min().item()
    print("codes used", len(codes.unique()), "least gap", gap)
    vectors = table[codes]
    price = ((vectors.detach() - z) ** 2).mean() + BETA * ((vectors - z.detach()) ** 2).mean()
    through = z + (vectors - z).detach()
    return z, codes, price, model.decoder(model.post_quant_conv(first(through)))


def main():
    model = VQModel()
    fill(model)
    model.double()
    pixels = first(noise("pixels", 2, SIZE, SIZE, 3)).double()
    evaluate = model.loss["discriminator"]["main"]
    z, codes, price, decoded = coded(model, pixels)
    logits = evaluate(pixels)
    loss = (decoded - pixels).abs().mean() + 2 * price - 0.1 * evaluate(decoded).mean()
    loss.backward()
    save({"z": z, "codes": codes.int(), "decoded": last(decoded), "logits": last(logits),
          "loss": loss, "gradients": gradients(model)}, "vqgan")


if __name__ == "__main__":
    main()
