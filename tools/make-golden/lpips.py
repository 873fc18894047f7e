"""tests/golden/lpips.safetensors: LPIPS (Zhang et al. 2018) as taming-transformers has it, of a
tiny VGG and of two pairs of images of 16 x 16, all by the rule of rule.py. The weights of the
distance are the rule's absolute values. Run: python tools/make-golden/lpips.py

features, distance    of the first images, channels last; the mean over the pairs
gradients             the distance's at the first images: one row (rule.py)

In double precision."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from rule import fill, noise, save, table

CHANNELS, CONVOLUTIONS, SIZE = [6, 8, 10], [1, 2, 3], 16


class LPIPS(nn.Module):
    def __init__(self, channels, convolutions):
        super().__init__()
        self.channels, self.net, cin, place = channels, nn.ModuleDict(), 3, 0
        for s, (c, n) in enumerate(zip(channels, convolutions)):
            stage = nn.ModuleDict()
            for _ in range(n):
                stage[str(place)] = nn.Conv2d(cin, c, 3, 1, 1)
                cin, place = c, place + 2
            place += 1
            self.net[f"slice{s + 1}"] = stage

    def levels(self, x):
        shift = torch.tensor([-.030, -.088, -.188]).double()[:, None, None]
        scale = torch.tensor([.458, .448, .450]).double()[:, None, None]
        x = (x - shift) / scale
        for s, stage in enumerate(self.net.values()):
            x = F.max_pool2d(x, 2) if s else x
            for conv in stage.values():
                x = F.relu(conv(x))
            yield x

    def forward(self, a, b):
        sum_ = 0
        for s, (x, y) in enumerate(zip(self.levels(a), self.levels(b))):
            x, y = (v / (v.pow(2).sum(1, keepdim=True).sqrt() + 1e-10) for v in (x, y))
            weight = noise(f"lin{s}.model.1.weight", self.channels[s]).double().abs()
            sum_ += ((x - y) ** 2 * weight[:, None, None]).sum(1).mean((1, 2))
        return sum_.mean()


def images(name):
    return noise(name, 2, SIZE, SIZE, 3).permute(0, 3, 1, 2).double()


def main():
    model = LPIPS(CHANNELS, CONVOLUTIONS)
    fill(model)
    model.double()
    a, b = images("pixels").requires_grad_(), images("others")
    distance = model(a, b)
    distance.backward()
    save({"features": list(model.levels(a))[-1].permute(0, 2, 3, 1), "distance": distance,
          "gradients": table({"pixels": a.grad.permute(0, 2, 3, 1)})}, "lpips")


if __name__ == "__main__":
    main()
