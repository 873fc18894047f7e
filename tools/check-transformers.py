#!/usr/bin/env python3
"""Hugging Face both ways, for real: trains small models with qkv and opens them with transformers;
makes full-size random models with transformers and takes them through qkv. Run by hand:

    python tools/check-transformers.py [--build build] [--text FILE ...] [--part trained|large]

Needs torch, transformers 4 or 5, tokenizers, safetensors, numpy. Exits 1 when a check failed.

trained  gpt2 (learned, sinusoid, no positions) and llama layouts, characters and byte-level BPE:
         AutoModelForCausalLM finds every key and no other, AutoTokenizer gives the same ids, the
         logits agree to 1e-5 of the largest, greedy text and loss are the same.
large    GPT-2 124M and a 110M Llama: qkv reads what transformers saved; `qkv convert` as F32, F16
         and BF16, whole and in shards, gives the same keys and bit-equal tensors, which
         transformers loads again.
"""
import argparse
import ctypes
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors import safe_open
from tokenizers import ByteLevelBPETokenizer, pre_tokenizers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel,
                          LlamaConfig, LlamaForCausalLM)

TOLERANCE = 1e-5
END = "<|endoftext|>"
failures = []


def check(what, fine, detail=""):
    print(f"  {'ok  ' if fine else 'FAIL'}  {what}{': ' if detail else ''}{detail}", flush=True)
    if not fine:
        failures.append(what)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path


# ---- qkv: the command, and the library where the command shows too little  ----------


class Ids(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ctypes.c_int32)), ("count", ctypes.c_size_t),
                ("capacity", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int), ("isa", ctypes.c_uint), ("alloc", ctypes.c_void_p),
                ("free", ctypes.c_void_p), ("user", ctypes.c_void_p)]


class Library:
    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(path)
        for name in ("qkv_context_message", "qkv_tensor_ids", "qkv_lm_hidden", "qkv_lm_logits",
                     "qkv_data"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p()
        options = Options(threads, 0x7fffffff, None, None, None)
        self.must(self.lib.qkv_context_create(ctypes.byref(self.ctx), ctypes.byref(options)))

    def must(self, status):
        if status:
            message = ctypes.string_at(self.lib.qkv_context_message(self.ctx))
            raise RuntimeError(message.decode())

    def encode(self, folder, text):
        tokenizer, ids, data = ctypes.c_void_p(), Ids(), text.encode()
        self.must(self.lib.qkv_tokenizer_load(ctypes.byref(tokenizer), self.ctx, folder.encode()))
        self.must(self.lib.qkv_tokenizer_encode(tokenizer, data, ctypes.c_size_t(len(data)), 0,
                                                ctypes.byref(ids)))
        out = ids.data[:ids.count]
        self.lib.qkv_ids_free(self.ctx, ctypes.byref(ids))
        self.lib.qkv_tokenizer_destroy(tokenizer)
        return out

    def logits(self, folder, ids, vocab):
        lib, model, tape = self.lib, ctypes.c_void_p(), ctypes.c_void_p()
        self.must(lib.qkv_hub_load(ctypes.byref(model), self.ctx, folder.encode()))
        self.must(lib.qkv_tape_create(ctypes.byref(tape), self.ctx))
        lib.qkv_tape_mode(tape, ctypes.c_bool(False), ctypes.c_bool(False))
        data, shape = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_size_t * 2)(1, len(ids))
        x = ctypes.c_void_p(lib.qkv_tensor_ids(tape, data, 2, shape))
        h = ctypes.c_void_p(lib.qkv_lm_hidden(model, tape, x, ctypes.c_size_t(0), None, None))
        y = lib.qkv_data(tape, ctypes.c_void_p(lib.qkv_lm_logits(model, tape, h)))
        self.must(lib.qkv_tape_status(tape))
        floats = ctypes.cast(y, ctypes.POINTER(ctypes.c_float))
        out = np.ctypeslib.as_array(floats, (len(ids), vocab)).copy()
        lib.qkv_tape_destroy(tape)
        lib.qkv_model_destroy(model)
        return torch.from_numpy(out)


class Qkv:
    def __init__(self, build, threads):
        self.command, self.threads = os.path.join(build, "qkv"), threads
        self.library = Library(os.path.join(build, "libqkv.so"), threads)

    def run(self, *words):
        line = [self.command, *map(str, words), "--threads", str(self.threads)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"qkv {words[0]}: exit {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--json"))


# ---- one model directory, judged by both  ---------------------------------------------


def open_model(folder, **more):
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **more)
    wrong = {k: v for k, v in info.items() if v}
    check("every key, no other", not wrong, str(wrong) if wrong else "")
    return model.eval()


def check_logits(qkv, folder, model, ids):
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].float()
    got = qkv.library.logits(folder, ids, expected.shape[1])
    error = ((got - expected).abs().max() / expected.abs().max()).item()
    check(f"logits of {len(ids)} tokens", error <= TOLERANCE, f"{error:.2g} of the largest")


def check_ids(qkv, folder, tokenizer, lines, scratch):
    path = write(scratch, "lines.txt", "\n".join(lines) + "\n")
    got = qkv.json("tokenize", folder, "--file", path)["ids"]
    expected = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in lines]
    different = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    check(f"ids of {len(lines)} lines", len(got) == len(expected) and not different,
          f"line {lines[different[0]]!r}" if different else "")
    whole = "\n".join(lines)
    check("ids of all in one", qkv.library.encode(folder, whole) ==
          tokenizer(whole, add_special_tokens=False)["input_ids"])


def check_greedy(qkv, folder, model, tokenizer, prompt, tokens, penalty=1.0, ngram=0):
    made = qkv.json("generate", folder, "--prompt", prompt, "--tokens", tokens, "--greedy",
                    "--repetition-penalty", penalty, "--no-repeat-ngram", ngram)
    ids = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    out = model.generate(**ids, max_new_tokens=tokens, do_sample=False, pad_token_id=0,
                         repetition_penalty=penalty, no_repeat_ngram_size=ngram)
    out = out[0, ids["input_ids"].shape[1]:].tolist()
    if out and out[-1] == model.config.eos_token_id:
        out.pop()
    text = tokenizer.decode(out, skip_special_tokens=True)
    check(f"greedy ids ({len(out)})", made["ids"] == out)
    check("greedy text", made["text"] == text, f"{made['text'][:40]!r}")


def check_loss(qkv, folder, model, ids, path, length):
    total = 0.0
    for at in range(0, len(ids) - 1, length):
        window = torch.tensor(ids[at:at + length + 1])
        with torch.no_grad():
            logits = model(window[None, :-1]).logits[0].double()
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    expected = total / (len(ids) - 1)
    got = qkv.json("eval", folder, "--file", path)
    check(f"loss of {len(ids) - 1} tokens", got["tokens"] == len(ids) - 1 and
          abs(got["loss"] - expected) <= TOLERANCE * expected,
          f"{got['loss']:.6f}, transformers {expected:.6f}")


def judge(qkv, folder, lines, text, length, scratch, tokens=40):
    model, tokenizer = open_model(folder), AutoTokenizer.from_pretrained(folder)
    check_ids(qkv, folder, tokenizer, lines, scratch)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    check_logits(qkv, folder, model, ids[:length])
    check_greedy(qkv, folder, model, tokenizer, text[:20], tokens)
    check_greedy(qkv, folder, model, tokenizer, text[:20], tokens, 1.4, 2)
    check_loss(qkv, folder, model, ids, write(scratch, "text.txt", text), length)


# ---- trained here  ---------------------------------------------

TRAINED = [("gpt2", ["--positions", "learned"]), ("gpt2", ["--positions", "sinusoid"]),
           ("gpt2", ["--positions", "none"]), ("llama", []),
           ("llama", ["--set", "num_key_value_heads=1", "--set", "tie_word_embeddings=true",
                      "--set", "attention_bias=true"])]

PARTS = ["\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "漢字", "かな",
         "한국어", "e\u0301", "n\u0303", "\u00a0", "\u2003", "\u3000", "\t", "  ", "    ", " ",
         "'s", "'LL", "don't", "I'm", "''", "2024", "٣", "½", "hello", " World", "ß", "İ", END,
         "<|endof", "...", "!?", "—", "\u200d", "\ufeff", "\u0085", "\x0b", "\u2028", "नमस्ते",
         "مرحبا", "a", " the", "\x01", "\x7f", "\U00010400", "int main(void)", "\r"]


def varied(rng, count):
    return ["".join(rng.choices(PARTS, k=rng.randint(0, 12))) for _ in range(count)]


def shuffled(rng, text, count):
    """Lines that a character tokenizer of the text knows."""
    known = sorted(set(text) - {"\n"})
    return ["".join(rng.choices(known, k=rng.randint(0, 40))) for _ in range(count)]


def check_trained(qkv, paths, scratch):
    rng = random.Random(7)
    text = "".join(open(p, encoding="utf-8", newline="").read() for p in paths)
    data = write(scratch, "data.txt", text)
    for layout, more in TRAINED:
        for kind in ("char", "bpe"):
            print(f"trained: {layout} {' '.join(more)} {kind}")
            folder = os.path.join(scratch, "trained")
            shutil.rmtree(folder, ignore_errors=True)
            qkv.run("train", "lm", "--data", data, "--out", folder, "--tokenizer", kind,
                    "--vocab", 600, "--layout", layout, "--model", "nano", "--length", 64,
                    "--steps", 30, "--batch", 8, *more)
            lines = shuffled(rng, text, 1000) if kind == "char" else varied(rng, 2000)
            judge(qkv, folder, lines, text[:3000], 64, scratch)


# ---- made by transformers  ---------------------------------------------


def make_tokenizer(folder, vocab, rng):
    """Byte-level BPE of `vocab` tokens: bytes, random merges of what is there, the end of text."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    known, merges = set(tokens), []
    while len(tokens) < vocab - 1:
        pair = tuple(tokens[min(int(rng.paretovariate(0.4)) - 1, len(tokens) - 1)]
                     for _ in range(2))
        if "".join(pair) not in known and len("".join(pair)) < 12:
            known.add("".join(pair))
            merges.append(pair)
            tokens.append("".join(pair))
    ids = {token: i for i, token in enumerate(tokens + [END])}
    tokenizer = ByteLevelBPETokenizer(ids, merges)
    tokenizer.add_special_tokens([END])
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, eos_token=END,
                                         bos_token=END).save_pretrained(folder)


def tensors_of(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with safe_open(path, "pt") as f:
            out |= {name: f.get_tensor(name) for name in f.keys()}
    return out


CONVERSIONS = [("f32", 0, torch.float32), ("f16", 0, torch.float16), ("bf16", 0, torch.bfloat16),
               ("f32", 100, torch.float32), ("bf16", 50, torch.bfloat16)]


def check_conversion(qkv, folder, ids, scratch, dtype, shard, torch_type):
    print(f" convert --dtype {dtype} --shard {shard}")
    out = os.path.join(scratch, "converted")
    shutil.rmtree(out, ignore_errors=True)
    qkv.run("convert", folder, out, "--dtype", dtype, "--shard", shard)
    before, after = tensors_of(folder), tensors_of(out)
    check("the same keys", before.keys() == after.keys(), f"{len(after)} tensors")
    check("bit-equal tensors", all(
        torch.equal(x.to(torch_type).view(torch.uint8), after[k].view(torch.uint8))
        for k, x in before.items()))
    model = open_model(out, torch_dtype=torch.float32)
    check("the configuration's number type", json.load(open(os.path.join(out, "config.json")))
          ["torch_dtype"] == str(torch_type).split(".")[1])
    check_logits(qkv, out, model, ids)


def check_large(qkv, paths, scratch):
    rng = random.Random(7)
    torch.manual_seed(7)
    text = open(paths[0], encoding="utf-8", newline="").read()[:6000]
    makers = [("GPT-2 124M", 50257, lambda n: GPT2LMHeadModel(GPT2Config(
        vocab_size=n, bos_token_id=n - 1, eos_token_id=n - 1))),
              ("Llama 110M", 32000, lambda n: LlamaForCausalLM(LlamaConfig(
                  vocab_size=n, hidden_size=704, intermediate_size=1920, num_hidden_layers=12,
                  num_attention_heads=11, num_key_value_heads=11, max_position_embeddings=1024,
                  bos_token_id=n - 1, eos_token_id=n - 1)))]
    for name, vocab, make in makers:
        folder = os.path.join(scratch, "large")
        shutil.rmtree(folder, ignore_errors=True)
        model = make(vocab)
        print(f"large: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
        model.save_pretrained(folder)
        make_tokenizer(folder, vocab, rng)
        judge(qkv, folder, varied(rng, 500), text, 1024, scratch, 20)
        ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"][:64]
        for conversion in CONVERSIONS:
            check_conversion(qkv, folder, ids, scratch, *conversion)


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=os.path.join(root, "build"))
    parser.add_argument("--text", nargs="+",
                        default=sorted(glob.glob(os.path.join(root, "src/tensor/*.c")))[:20])
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--part", choices=["trained", "large"])
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    qkv = Qkv(os.path.abspath(args.build), args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        if args.part != "large":
            check_trained(qkv, args.text, scratch)
        if args.part != "trained":
            check_large(qkv, args.text, scratch)
    print(f"{len(failures)} failed" if failures else "all as transformers has it")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
