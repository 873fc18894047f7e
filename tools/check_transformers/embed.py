"""embed.py - encoders without a head: vectors of texts and of images."""
import os

import numpy as np
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer, BertConfig, BertModel

from .bert import TRAINED
from .evaluate import check, check_close, empty_folder, open_model, write
from .vit import write_images


def vectors(qkv, folder, scratch, *what):
    path = os.path.join(scratch, "vectors.npy")
    qkv.run("embed", folder, *what, "--out", path)
    return torch.tensor(np.load(path))


def means(model, tokenizer, lines):
    """Normalised means over the tokens of padded lines."""
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def check_sentences(folder, lines, got):
    """sentence-transformers opens the directory, where it is installed."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        print("  sentence-transformers is not installed: not compared")
        return
    expected = SentenceTransformer(folder, device="cpu").encode(
        lines, convert_to_tensor=True, normalize_embeddings=True)
    check_close("vectors of sentence-transformers", got, expected)


def check_texts(qkv, folder, scratch, lines):
    model, tokenizer = open_model(AutoModel, folder), AutoTokenizer.from_pretrained(folder)
    check("a BertModel", isinstance(model, BertModel), type(model).__name__)
    path = write(scratch, "lines.txt", "".join(line + "\n" for line in lines))
    got = vectors(qkv, folder, scratch, "--file", path)
    check_close(f"vectors {tuple(got.shape)}", got, means(model, tokenizer, lines))
    check_sentences(folder, lines, got)


def texts(qkv, text, scratch):
    words = " ".join(open(path, encoding="utf-8").read() for path in text).split()
    lines = [" ".join(words[i:i + 3 + i % 7]) for i in range(0, 600, 6)]
    data = write(scratch, "pairs.tsv", "".join(f"{line}\t{line.upper()}\n" for line in lines))
    for kind, flags, _ in TRAINED:
        folder = empty_folder(scratch, "embed-" + kind)
        qkv.run("train", "embed", "--data", data, "--tokenizer", kind, "--vocab", 300, "--model",
                "nano", "--steps", 5, "--out", folder, *flags)
        check_texts(qkv, folder, scratch, lines[:40])
    # A directory that transformers saved, with the tokenizer of the last one.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    made = empty_folder(scratch, "embed-made")
    BertModel(BertConfig(vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=2,
                         num_attention_heads=4, intermediate_size=96)).save_pretrained(made)
    tokenizer.save_pretrained(made)
    check_texts(qkv, made, scratch, lines[:40])


def images(qkv, _, scratch):
    data, pixels = write_images(scratch, 3)
    folder = empty_folder(scratch, "embed-vit")
    qkv.run("train", "embed", "--data", data, "--type", "vit", "--model", "nano", "--steps", 5,
            "--batch", 16, "--out", folder)
    model = open_model(AutoModel, folder)
    some = [Image.fromarray(x) for x in pixels[:5]]
    prepared = AutoImageProcessor.from_pretrained(folder)(some, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**prepared).last_hidden_state[:, 0]
    got = vectors(qkv, folder, scratch, "--file", data)[:5]
    check_close("class tokens of a ViTModel", got, torch.nn.functional.normalize(hidden, dim=-1))


def all_of_it(qkv, text, scratch):
    texts(qkv, text, scratch)
    images(qkv, text, scratch)
