#!/usr/bin/env python3
"""GGUF both ways, for real: models that transformers made are converted by qkv and run by
llama.cpp; files of llama.cpp's converter and quantiser become directories that transformers opens.
By hand:

    python tools/check-gguf.py [--build build] [--text FILE] [--converter FOLDER] [--part NAME ...]

Needs torch, transformers 5, tokenizers, sentencepiece, pillow, gguf and llama-cpp-python. FOLDER:
llama.cpp's own, which has convert_hf_to_gguf.py (llama-cpp-python's source package has it, in
vendor); without it that part is left out. Exits 1 when a check failed.
"""
import argparse
import glob
import os
import sys
import tempfile

import transformers

from check_gguf import read, write
from check_transformers import evaluate

PARTS = [("write", "directories as GGUF files, run by llama.cpp", write.all_of_it),
         ("read", "files of llama.cpp's converter and quantiser", read.all_of_it)]


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    names = [name for name, _, _ in PARTS]
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0],
        epilog="; ".join(f"{name}: {what}" for name, what, _ in PARTS))
    parser.add_argument("--build", default=os.path.join(root, "build"))
    parser.add_argument("--text", default=max(glob.glob(os.path.join(root, "docs/*.md")),
                                              key=os.path.getsize))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--converter", default="")
    parser.add_argument("--part", choices=names, nargs="+", default=names, metavar="NAME")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    qkv = evaluate.Qkv(os.path.abspath(args.build), args.threads)
    text = open(args.text, encoding="utf-8", newline="").read()
    for name, _, run in PARTS:
        if name in args.part:
            with tempfile.TemporaryDirectory() as scratch:
                run(qkv, text, scratch, args.converter)
    failures = evaluate.failures
    print(f"{len(failures)} failed" if failures else "all as llama.cpp has it")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
