#!/usr/bin/env python3
"""Hugging Face both ways, for real: trains small models with qkv and opens them with transformers;
makes random models with transformers, full-size ones too, and takes them through qkv. By hand:

    python tools/check-transformers.py [--build build] [--text FILE ...] [--part NAME ...]

Needs torch, transformers 4 or 5, tokenizers, sentencepiece, protobuf, safetensors, numpy. Exits 1
when a check failed. Of every model: its file has each key of the architecture and no other;
AutoTokenizer gives the same ids; logits agree to 1e-5 of the largest; what it makes of a text is
the same. `qkv convert` of what transformers saved: the same keys, bit-equal tensors, which it loads
again.
"""
import argparse
import glob
import os
import sys
import tempfile
import time

import torch
import transformers

from check_transformers import (bert, clip, embed, evaluate, lm, look, mae, marian, named, t5,
                                taming, vit)

# Every part: name, what it checks, in which function.
PARTS = [
    ("lm-trained", "every layout, characters and byte-level BPE", lm.trained),
    ("lm-made", "GPT-2 124M, a 110M Llama, SmolLM2 135M and Qwen3 600M", lm.made),
    ("bert-trained", "BERT of both heads, WordPiece, byte-level BPE, characters", bert.trained),
    ("bert-made", "BERT of both heads, small and base, and old files of it", bert.made),
    ("bert-kin", "RoBERTa, DistilBERT and MiniLM of true size", bert.kin),
    ("embed", "vectors of texts and images, sentence-transformers too where it is installed",
     embed.all_of_it),
    ("clip", "vectors of images and captions; CLIP's own tokenizer, and training from it",
     clip.all_of_it),
    ("marian-trained", "translators with tokenizers of every kind", marian.trained),
    ("marian-made", "translators, small and of opus-mt's size, and an old file", marian.made),
    ("t5-made", "T5 of both kinds, small and of t5-small's size, and fine-tuned here", t5.made),
    ("vit-trained", "classifiers of images, colour and grey", vit.trained),
    ("vit-made", "ViT, DeiT and DINOv2, small and base", vit.made),
    ("mae-trained", "masked autoencoders, colour and grey", mae.trained),
    ("mae-made", "masked autoencoders, small and base", mae.made),
    ("timm", "timm's names, both ways (needs timm)", named.timms),
    ("mae-named", "names of facebookresearch/mae, both ways", named.maes),
    ("taming", "taming-transformers' own code, both ways (its folder in PYTHONPATH)",
     taming.all_of_it),
    ("look-texts", "attention and hidden states that look captures: GPT-2, Llama, BERT, Marian, T5",
     look.texts),
    ("look-images", "the same of ViT and both halves of ViTMAE", look.images),
]


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    names = [name for name, _, _ in PARTS]
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0],
        epilog="; ".join(f"{name}: {what}" for name, what, _ in PARTS))
    parser.add_argument("--build", default=os.path.join(root, "build"))
    parser.add_argument("--text", nargs="+",
                        default=sorted(glob.glob(os.path.join(root, "src/tensor/*.c")))[:20])
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--part", choices=names, nargs="+", default=names, metavar="NAME")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    qkv = evaluate.Qkv(os.path.abspath(args.build), args.threads)
    for name, _, run in PARTS:
        if name not in args.part:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            run(qkv, args.text, scratch)
        print(f"{name}: {time.monotonic() - begun:.0f} s")
    failures = evaluate.failures
    print(f"{len(failures)} failed" if failures else "all as transformers has it")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
