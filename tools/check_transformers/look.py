"""look.py - what `qkv look --capture` stores: attention weights and hidden states."""
import json
import os
import random

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import (AutoTokenizer, BertForMaskedLM, BertForSequenceClassification,
                          GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MarianMTModel, T5ForConditionalGeneration, ViTConfig,
                          ViTForImageClassification, ViTMAEConfig, ViTMAEForPreTraining)

from . import bert, lm, mae, marian, t5, vit
from .evaluate import check, check_close, empty_folder, write

TEXT = "the cat sat on the mat, and unaffable people don't"
EVERYTHING = {"output_attentions": True, "output_hidden_states": True}


def capture(qkv, folder, scratch, *words):
    path = os.path.join(scratch, "inside.safetensors")
    qkv.run("look", folder, *words, "--capture", path)
    return load_file(path)


def check_capture(what, got, expected):
    """Every tensor of the file. expected: name -> a tensor for each layer."""
    names = {f"{name}.{i}" for name, layers in expected.items() for i in range(len(layers))}
    odd = names ^ got.keys()
    check(f"{what}: the names", not odd, str(sorted(odd)[:4]) if odd else f"{len(names)}")
    for name, layers in expected.items():
        for i, tensor in enumerate(layers):
            found = got.get(f"{name}.{i}")
            if found is None or found.shape != tensor.shape:
                check(f"{what}: shape of {name}.{i}", False,
                      f"{None if found is None else tuple(found.shape)}, {tuple(tensor.shape)}")
                return
            check_close(f"{what}: {name}.{i} {tuple(tensor.shape)}", found, tensor)


def eager(maker, folder):
    return maker.from_pretrained(folder, attn_implementation="eager").eval()


def random_biases(model):
    """Biases and norms at their first values would hide mistakes; wide weights, flat attention."""
    for p in model.parameters():
        if p.requires_grad:
            p.data += (0.1 if p.ndim == 1 else 0.05) * torch.randn(p.shape)
    return model.eval()


def both(out, prefix=""):
    return {prefix + "attentions": out.attentions, prefix + "hidden_states": out.hidden_states}


# ---- texts  ---------------------------------------------

SIZES = {"vocab_size": 400, "bos_token_id": 399, "eos_token_id": 399}
CAUSAL = [
    ("gpt2", GPT2LMHeadModel, GPT2Config(n_embd=48, n_layer=3, n_head=4, n_positions=64, **SIZES)),
    ("llama", LlamaForCausalLM, LlamaConfig(
        hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, **SIZES)),
]


def causal(qkv, scratch):
    rng = random.Random(7)
    for name, maker, config in CAUSAL:
        folder = empty_folder(scratch, "made")
        random_biases(maker(config)).save_pretrained(folder)
        lm.make_tokenizer(folder, config.vocab_size, rng)
        ids = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt").input_ids
        with torch.no_grad():
            out = eager(maker, folder)(ids, **EVERYTHING)
        check_capture(name, capture(qkv, folder, scratch, TEXT), both(out))


def berts(qkv, scratch):
    for name, maker, fields, texts in (
            ("bert", BertForMaskedLM, bert.SMALL, ["the [MASK] over her"]),
            ("bert, a pair", BertForSequenceClassification, bert.SMALL | bert.LABELS,
             ["the cat of me", "now and then"])):
        folder, model = bert.make(scratch, name, maker, fields)
        random_biases(model).save_pretrained(folder)
        batch = AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
        with torch.no_grad():
            out = eager(maker, folder)(**batch, **EVERYTHING)
        words = [texts[0], *(["--second", texts[1]] if len(texts) > 1 else [])]
        check_capture(name, capture(qkv, folder, scratch, *words), both(out))


def translators(qkv, paths, scratch):
    text = "".join(open(p, encoding="utf-8").read() for p in paths)
    for name, maker, source in (("marian", MarianMTModel, marian),
                                ("t5", T5ForConditionalGeneration, t5)):
        folder, model = source.make(scratch, "small", text, 700, source.SMALL)[:2]
        random_biases(model).save_pretrained(folder)
        translator(qkv, scratch, name, eager(maker, folder), folder)


def translator(qkv, scratch, name, model, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    source, target = "the length of a tensor", "rows of the tape"
    batch = tokenizer(source, text_target=target, return_tensors="pt")
    labels = batch.pop("labels")
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        out = model(**batch, decoder_input_ids=torch.cat([start, labels[:, :-1]], 1), **EVERYTHING)
    names = ["encoder_attentions", "decoder_attentions", "cross_attentions",
             "encoder_hidden_states", "decoder_hidden_states"]
    check_capture(name, capture(qkv, folder, scratch, source, "--second", target),
                  {name: out[name] for name in names})


def texts(qkv, paths, scratch):
    torch.manual_seed(7)
    causal(qkv, scratch)
    berts(qkv, scratch)
    translators(qkv, paths, scratch)


# ---- images  ---------------------------------------------

MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]


def photo(scratch, folder, side):
    """A PNG of the model's size, and its pixels as preprocessor_config.json wants them."""
    write(folder, "preprocessor_config.json", json.dumps({
        "do_resize": True, "size": {"height": side, "width": side}, "resample": 2,
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN,
        "image_std": STD}))
    image = np.random.default_rng(7).integers(0, 256, (side, side, 3), np.uint8)
    path = os.path.join(scratch, "photo.png")
    Image.fromarray(image).save(path)
    pixels = (image / 255 - np.array(MEAN)) / np.array(STD)
    return path, torch.tensor(pixels).float().permute(2, 0, 1)[None]


def classifier(qkv, scratch):
    folder = empty_folder(scratch, "made")
    random_biases(ViTForImageClassification(ViTConfig(**vit.SMALL))).save_pretrained(folder)
    path, pixels = photo(scratch, folder, vit.SMALL["image_size"])
    with torch.no_grad():
        out = eager(ViTForImageClassification, folder)(pixels, **EVERYTHING)
    check_capture("vit", capture(qkv, folder, scratch, path), both(out))


def decoder_of(model):
    """What the decoder's layers get and give, and their weights, while it runs: transformers
    reports the encoder's alone."""
    seen = {"decoder_attentions": [], "decoder_hidden_states": []}
    layers = model.decoder.decoder_layers
    for i, layer in enumerate(layers):
        layer.attention.register_forward_hook(
            lambda _, args, out: seen["decoder_attentions"].append(out[1]))
        layer.register_forward_hook(lambda _, args, out: seen["decoder_hidden_states"].append(out))
        if i == 0:
            layer.register_forward_pre_hook(
                lambda _, args: seen["decoder_hidden_states"].append(args[0]))
    return seen


def autoencoder(qkv, scratch):
    """transformers orders patches by their noise, and reads the first: noise that puts those first
    that qkv has left visible."""
    folder = empty_folder(scratch, "made")
    random_biases(ViTMAEForPreTraining(ViTMAEConfig(**mae.SMALL))).save_pretrained(folder)
    path, pixels = photo(scratch, folder, mae.SMALL["image_size"])
    patches = (mae.SMALL["image_size"] // mae.SMALL["patch_size"]) ** 2
    model = eager(ViTMAEForPreTraining, folder)
    decoder = decoder_of(model)
    for share in (0.75, 0.4):
        words = [path, "--mask", share]
        visible = qkv.json("look", folder, *words)["axes"][0]["cells"]
        noise = torch.ones(1, patches)
        noise[0, visible] = torch.linspace(0, 0.5, len(visible))
        model.vit.config.mask_ratio = model.vit.embeddings.config.mask_ratio = share
        for tensors in decoder.values():
            tensors.clear()
        with torch.no_grad():
            out = model.vit(pixels, noise=noise, **EVERYTHING)
            model.decoder(out.last_hidden_state, out.ids_restore)
        check_capture(f"vit_mae, {share:g} masked", capture(qkv, folder, scratch, *words),
                      both(out) | decoder)


def images(qkv, _, scratch):
    torch.manual_seed(7)
    classifier(qkv, scratch)
    autoencoder(qkv, scratch)
