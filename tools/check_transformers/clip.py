"""clip.py - images with captions: vectors of both encoders, and the loss with its learnt scale."""
import json
import os

import numpy as np
import torch
from PIL import Image
from tokenizers import models, pre_tokenizers, trainers
from transformers import (AutoImageProcessor, AutoModel, AutoTokenizer, CLIPConfig,
                          CLIPImageProcessor, CLIPModel, CLIPTokenizer)

from .evaluate import check, check_close, empty_folder, open_model, write

SIDE, IMAGES = 32, 24
COLORS, SHAPES = ("red", "green", "blue"), ("disc", "stripes", "square")


def draw(scratch):
    """A folder of images, a table of their captions; both as lists too."""
    rng = np.random.default_rng(5)
    folder = empty_folder(scratch, "pictures")
    y, x = np.mgrid[:SIDE, :SIDE]
    shapes = [(x - 16) ** 2 + (y - 16) ** 2 < 100, y % 8 < 4, (x > 8) & (x < 24) & (y > 8)]
    images, captions = [], []
    for i in range(IMAGES):
        data = rng.integers(0, 60, (SIDE, SIDE, 3), np.uint8)
        data[shapes[i // 3 % 3], i % 3] = 150 + 4 * i
        images.append(Image.fromarray(data))
        images[-1].save(os.path.join(folder, f"{i:02}.png"))
        captions.append(f"a {COLORS[i % 3]} {SHAPES[i // 3 % 3]}, the {i}th of the {IMAGES}")
    table = "".join(f'{i:02}.png,"{text}"\n' for i, text in enumerate(captions))
    return folder, write(scratch, "captions.csv", "file,caption\n" + table), images, captions


def unit(x):
    return torch.nn.functional.normalize(x, dim=-1)


def check_directory(qkv, folder, scratch, drawn):
    pictures, table, images, captions = drawn
    model, tokenizer = open_model(AutoModel, folder), AutoTokenizer.from_pretrained(folder)
    check("a CLIPModel", isinstance(model, CLIPModel), type(model).__name__)
    texts = tokenizer(captions, padding=True, return_tensors="pt")
    pixels = AutoImageProcessor.from_pretrained(folder)(images, return_tensors="pt")
    both = {"input_ids": texts["input_ids"], "attention_mask": texts["attention_mask"],
            "pixel_values": pixels["pixel_values"]}
    with torch.no_grad():
        expected = model(**both, return_loss=True)
    lines = write(scratch, "lines.txt", "".join(text + "\n" for text in captions))
    out = os.path.join(scratch, "vectors.npy")
    qkv.run("embed", folder, "--file", lines, "--out", out)
    got_texts = torch.tensor(np.load(out))
    qkv.run("embed", folder, "--file", pictures, "--out", out)
    got_images = torch.tensor(np.load(out))
    check_close("vectors of texts", got_texts, unit(expected.text_embeds))
    check_close("vectors of images", got_images, unit(expected.image_embeds))
    answer = json.loads(qkv.run("eval", folder, "--file", pictures, "--captions", table, "--json"))
    check_close(f"loss at the scale {model.logit_scale.exp():.4g}", torch.tensor(answer["loss"]),
                expected.loss)
    first = expected.logits_per_text.argmax(-1) == torch.arange(IMAGES)
    found = round(answer["to_image_1"] * IMAGES)
    check("images found by their texts", found == first.sum(), f"{found} of {IMAGES}")


def train(qkv, drawn, out, *flags):
    qkv.run("train", "embed", "--data", drawn[0], "--captions", drawn[1], "--steps", 30, "--batch",
            8, "--lr", "2e-3", "--out", out, *flags)


def trained(qkv, _, scratch):
    drawn = draw(scratch)
    for kind in ("wordpiece", "bpe"):
        folder = empty_folder(scratch, "clip-" + kind)
        train(qkv, drawn, folder, "--model", "nano", "--tokenizer", kind, "--vocab", 300)
        check_directory(qkv, folder, scratch, drawn)


def small_tokenizer(captions):
    """CLIP's parts with a vocabulary of these captions."""
    backend = CLIPTokenizer().backend_tokenizer
    backend.model = models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>")
    backend.train_from_iterator(captions, trainers.BpeTrainer(
        vocab_size=700, end_of_word_suffix="</w>", show_progress=False,
        special_tokens=["<|startoftext|>", "<|endoftext|>"]))
    model = json.loads(backend.to_str())["model"]
    vocab = model["vocab"]
    for c in sorted(pre_tokenizers.ByteLevel.alphabet()):
        for token in (c, c + "</w>"):
            vocab.setdefault(token, len(vocab))
    return CLIPTokenizer(vocab=vocab, merges=[tuple(pair) for pair in model["merges"]])


def made(qkv, _, scratch):
    """A directory that transformers saved, as it is and trained further."""
    drawn = draw(scratch)
    folder, out = empty_folder(scratch, "clip-made"), empty_folder(scratch, "clip-further")
    tokenizer = small_tokenizer(drawn[3])
    sizes = {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(2)
    CLIPModel(CLIPConfig(
        text_config=sizes | {"hidden_size": 32, "vocab_size": len(tokenizer), "bos_token_id": 0,
                             "eos_token_id": 1, "pad_token_id": 1, "max_position_embeddings": 40},
        vision_config=sizes | {"hidden_size": 48, "image_size": SIDE, "patch_size": 8},
        projection_dim=24)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": SIDE},
                       crop_size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    check_directory(qkv, folder, scratch, drawn)
    text = "A  Red DISC's edge, isn't it? Zw\u00f6lf \u6f22\u5b57"
    ids = [int(i) for i in qkv.run("tokenize", folder, text).split()]
    check("ids of CLIP's tokenizer", ids == tokenizer(text, add_special_tokens=False)["input_ids"])
    train(qkv, drawn, out, "--init", folder)
    check_directory(qkv, out, scratch, drawn)


def all_of_it(qkv, text, scratch):
    trained(qkv, text, scratch)
    made(qkv, text, scratch)
