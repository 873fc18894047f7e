"""The models of peers/pytorch.py, with random weights: those of transformers where it has them, a
compact transformer and the generator's phase of a VQGAN's step where it does not."""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, MarianConfig,
                          MarianMTModel, ViTConfig, ViTForImageClassification,
                          ViTMAEConfig, ViTMAEForPreTraining)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tools/make-golden"))
import vqgan  # noqa: E402  (a VQGAN's wiring in plain torch)

PAIRS_VOCAB, TEXT = 32001, 128


def gpt2(positions=1024, vocab=50257):
    """124M parameters, without dropout."""
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=vocab, n_positions=max(positions, 1024), resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, attn_implementation="sdpa"))


def bert(dropout):
    return BertForMaskedLM(BertConfig(
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa"))


def base_transformer():
    return MarianMTModel(MarianConfig(
        vocab_size=PAIRS_VOCAB, pad_token_id=PAIRS_VOCAB - 1, max_position_embeddings=512,
        decoder_start_token_id=PAIRS_VOCAB - 1, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, encoder_layerdrop=0.0, decoder_layerdrop=0.0, dropout=0.1,
        activation_function="relu", scale_embedding=True, attn_implementation="sdpa"))


class Logits(nn.Module):
    """Of an image classifier."""

    def __init__(self):
        super().__init__()
        self.model = ViTForImageClassification(ViTConfig(num_labels=1000,
                                                         attn_implementation="sdpa"))

    def forward(self, pixels):
        return self.model(pixels).logits


class Hidden(nn.Module):
    """The output of BERT's last layer."""

    def __init__(self):
        super().__init__()
        self.model = bert(0.0).bert

    def forward(self, ids):
        return self.model(ids).last_hidden_state


def vit():
    return Logits()


def mae():
    return ViTMAEForPreTraining(ViTMAEConfig(attn_implementation="sdpa"))


def inference(name, batch):
    """The model, in inference, and its input."""
    if name == "vit-base":
        return vit().eval(), torch.rand(batch, 3, 224, 224) * 2 - 1
    if name == "cct-7":
        return Compact().eval(), torch.rand(batch, 3, 32, 32) * 2 - 1
    return Hidden().eval(), torch.randint(30522, (batch, TEXT))


# ---- the compact transformer (Hassani et al. 2021) -----------------------------------------------


class Block(nn.Module):
    """The output of the norm after the attention replaces the stream."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        packed = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norms[1](x + self.out(y))
        return x + self.narrow(F.gelu(self.wide(x)))


class Compact(nn.Module):
    """7 blocks of 256 on two convolutions, for images of 32 x 32 and 10 classes."""

    def __init__(self, width=256, blocks=7, heads=4, channels=64, tokens=64):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 1, 1, bias=False)
                                   for a, b in ((3, channels), (channels, width)))
        self.positions = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm, self.pool = nn.LayerNorm(width), nn.Linear(width, 1)
        self.classes = nn.Linear(width, 10)

    def forward(self, x):
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 3, 2, 1)
        x = self.norm(self.blocks(x.flatten(2).mT + self.positions))
        return self.classes((self.pool(x).softmax(1).mT @ x).squeeze(1))


# ---- VQGAN, f16 (Esser et al. 2021) --------------------------------------------------------------

CODES, GRID, SIDE = 1024, 16, 256
SIZES = {"CH": 128, "MULT": [1, 1, 2, 2, 4], "BLOCKS": 2, "ATTENTION": [16], "SIZE": SIDE,
         "Z": 256, "WIDTH": 256, "CODES": CODES, "NDF": 64, "LAYERS": 3}


def codes_network():
    for name, value in SIZES.items():
        setattr(vqgan, name, value)
    return vqgan.VQModel()


def decoded(model, codes):
    vectors = F.embedding(codes, model.quantize["embedding"].weight)
    return model.decoder(model.post_quant_conv(vqgan.first(vectors)))


class Features(nn.Module):
    """VGG16 up to its fifth stage, and LPIPS's weights on the distance of what the stages see."""

    def __init__(self):
        super().__init__()
        self.stages, cin = nn.ModuleList(), 3
        for count, channels in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
            layers = [nn.MaxPool2d(2)] if cin > 3 else []
            for _ in range(count):
                layers += [nn.Conv2d(cin, channels, 3, 1, 1), nn.ReLU()]
                cin = channels
            self.stages.append(nn.Sequential(*layers))
        self.weights = nn.ParameterList(torch.rand(c, 1, 1) for c in (64, 128, 256, 512, 512))
        self.requires_grad_(False)

    def forward(self, a, b):
        distance = 0
        for stage, weight in zip(self.stages, self.weights):
            a, b = stage(a), stage(b)
            x, y = (F.normalize(v, dim=1, eps=1e-10) for v in (a, b))
            distance = distance + ((x - y)**2 * weight).sum(1).mean()
        return distance


class Generator(nn.Module):
    """The loss of the generator's phase: absolute error, LPIPS, what the discriminator says by the
    adaptive weight, and what the codes cost. The discriminator does not learn in it."""
    side = SIDE

    def __init__(self):
        super().__init__()
        self.network, self.looks = codes_network(), Features()
        self.judge = self.network.loss["discriminator"]["main"].requires_grad_(False)

    def compile_parts(self):
        """The adaptive weight goes back from two losses, so that parts are compiled alone and
        keep what a second pass reads. Encoder and decoder share code, and sizes that differ between
        them would be taken for ones that change."""
        torch._functorch.config.donated_buffer = False
        for part in self.network.encoder, self.network.decoder, self.looks, self.judge:
            part.compile(dynamic=False)

    def coded(self, pixels):
        table = self.network.quantize["embedding"].weight
        z = vqgan.last(self.network.quant_conv(self.network.encoder(pixels)))
        distance = (z**2).sum(-1, keepdim=True) + (table**2).sum(1) - 2 * z @ table.T
        vectors = table[distance.argmin(-1)]
        cost = ((vectors.detach() - z)**2).mean() + 0.25 * ((vectors - z.detach())**2).mean()
        through = vqgan.first(z + (vectors - z).detach())
        return cost, self.network.decoder(self.network.post_quant_conv(through))

    def forward(self, pixels):
        last = self.network.decoder.conv_out.weight
        cost, image = self.coded(pixels)
        unlike = (pixels - image).abs().mean() + self.looks(pixels, image)
        judged = -self.judge(image).mean()
        of_unlike, of_judged = (torch.autograd.grad(y, last, retain_graph=True)[0].norm()
                                for y in (unlike, judged))
        weight = (of_unlike / (of_judged + 1e-4)).clamp(0, 1e4) * 0.8
        return unlike + weight.detach() * judged + cost
