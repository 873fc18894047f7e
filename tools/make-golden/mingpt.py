"""tests/golden/mingpt.safetensors: what a plain torch module of minGPT's wiring, under the names of
taming-transformers, makes of grids of codes, all by the rule of rule.py. It reads what the grid
hangs on and then the grid but for its last code, and is to tell the grid's own codes, whatever
stands in their places. Run: python tools/make-golden/mingpt.py

start.      2 grids of 9 codes behind a start token, 0
exchanged.  the same behind 4 other codes; some codes that are read have become others
.logits     of the grids' places
.loss       mean -log p of the grids' codes
.gradients  of that loss: a row of each tensor's (rule.py)

In double precision."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from rule import fill, gradients, ids, noise, save

VOCAB, WIDTH, LAYERS, HEADS, CODES, BEFORE, SHARE = 20, 32, 2, 4, 9, 4, 0.6
POSITIONS = BEFORE + CODES - 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.query, self.value, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        def heads(layer):
            return layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)

        scores = heads(self.query) @ heads(self.key).transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.proj((weights @ heads(self.value)).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_emb = nn.Embedding(VOCAB, WIDTH)
        self.pos_emb = nn.Parameter(torch.zeros(1, POSITIONS, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, x):
        return self.head(self.ln_f(self.blocks(self.tok_emb(x) + self.pos_emb[:, :x.shape[1]])))


def case(model, before, grid, read):
    logits = model.transformer(torch.cat([before, read], 1)[:, :-1])[:, before.shape[1] - 1:]
    loss = F.cross_entropy(logits.flatten(0, 1), grid.flatten())
    model.zero_grad()
    loss.backward()
    return {"logits": logits, "loss": loss, "gradients": gradients(model)}


model = nn.Module()
model.transformer = GPT()
fill(model)
model.double()
grid = ids("grid", VOCAB, 2, CODES)
others = torch.where(noise("keep", 2, CODES).double() < 2 * SHARE - 1, grid,
                     ids("others", VOCAB, 2, CODES))
print("exchanged", (grid != others).int().tolist())
start, before = torch.zeros(2, 1).long(), ids("before", VOCAB, 2, BEFORE)
out = {f"start.{k}": v for k, v in case(model, start, grid, grid).items()}
out |= {f"exchanged.{k}": v for k, v in case(model, before, grid, others).items()}
save(out, "mingpt")
