#!/usr/bin/env python3
"""check-peft.py - adapters of qkv in PEFT, and of PEFT in qkv: the same logits. By hand.

    python tools/check-peft.py [--qkv build/qkv] [--work DIR]

For each kind: qkv trains a small model and an adapter of it; PEFT puts the adapter on the model,
and transformers opens what `qkv convert --merge` made. Then PEFT makes an adapter with a rank
pattern and rsLoRA, and qkv merges that; a classifier's is of the masked language model, with a
pooler and classes of its own. Needs torch, transformers, peft, safetensors and
sentencepiece."""

import argparse
import os
import subprocess
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM,
                          AutoModelForSequenceClassification)

TOLERANCE = 1e-4  # of the largest logit

KINDS = {  # arguments of train for the model, for the adapter; PEFT's targets; the class
    "gpt2": (["lm", "--layout", "gpt2"], ["lm"], ["c_attn", "c_fc"], AutoModelForCausalLM),
    "llama": (["lm", "--layout", "llama"], ["lm"], ["q_proj", "down_proj"], AutoModelForCausalLM),
    "phi3": (["lm", "--layout", "phi3"], ["lm"], ["qkv_proj", "gate_up_proj"],
             AutoModelForCausalLM),
    "qwen3": (["lm", "--layout", "qwen3"], ["lm"], ["k_proj", "o_proj"], AutoModelForCausalLM),
    "bert": (["mlm"], ["mlm"], ["query", "value"], AutoModelForMaskedLM),
    "classifier": (["mlm"], ["classify"], ["query", "dense"], AutoModelForSequenceClassification),
    "marian": (["translate"], ["translate"], ["q_proj", "fc1"], AutoModelForSeq2SeqLM),
}


def texts(folder):
    words = "the a man woman dog red blue small runs sees likes on street with and".split()
    lines = [" ".join(words[(i * j + j * j) % len(words)] for j in range(1, 9)) for i in range(400)]
    for name, content in (("en", "\n".join(lines)), ("de", "\n".join(x[::-1] for x in lines)),
                          ("tsv", "\n".join(f"{'good' if i % 3 else 'bad'}\t{x}"
                                            for i, x in enumerate(lines)))):
        with open(f"{folder}/text.{name}", "w", encoding="utf-8") as f:
            f.write(content + "\n")


def data(kind):
    files = {"translate": ["--source", "text.en", "--target", "text.de"],
             "classify": ["--data", "text.tsv"]}
    return files.get(kind, ["--data", "text.en"])


def logits(model, kind):
    torch.manual_seed(1)
    ids = torch.randint(5, model.config.vocab_size, (2, 12))
    batch = {"input_ids": ids}
    if kind == "marian":
        batch["decoder_input_ids"] = ids[:, :7]
    with torch.no_grad():
        return model.eval()(**batch).logits


def off(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def train_in_peft(make, base, targets, out, kind):
    torch.manual_seed(2)
    config = LoraConfig(r=4, lora_alpha=9, use_rslora=True, target_modules=targets,
                        rank_pattern={targets[0]: 2},
                        fan_in_fan_out=kind == "gpt2")
    more = {}
    if kind == "classifier":
        config.task_type, config.modules_to_save, more = "SEQ_CLS", ["pooler"], {"num_labels": 3}
    model = get_peft_model(make.from_pretrained(base, **more), config)
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.data = torch.randn(p.shape) * 0.1
    model.save_pretrained(out)
    return logits(model, kind)


def check(kind, qkv, folder):
    first, second, targets, make = KINDS[kind]
    base, adapter, merged = f"{kind}-base", f"{kind}-adapter", f"{kind}-merged"
    common = ["--steps", "30", "--quiet", "--threads", "2"]
    size = ["--model", "nano", "--vocab", "300"]

    def run(*args):
        subprocess.run([qkv, *args], check=True, cwd=folder)

    run("train", *first, *data(first[0]), *size, *common, "--out", base)
    run("train", *second, *data(second[0]), "--init", base, "--lora", "r=4,dropout=0.1", *common,
        "--out", adapter)
    run("convert", adapter, merged, "--merge", "--quiet")
    ours = logits(make.from_pretrained(f"{folder}/{merged}"), kind)
    extra = {"num_labels": 2} if kind == "classifier" else {}
    under = make.from_pretrained(f"{folder}/{base}", **extra)
    theirs = logits(PeftModel.from_pretrained(under, f"{folder}/{adapter}"), kind)
    there = off(ours, theirs)
    back = train_in_peft(make, f"{folder}/{base}", targets, f"{folder}/{kind}-peft", kind)
    run("convert", f"{kind}-peft", f"{kind}-peft-merged", "--merge", "--quiet")
    ours = logits(make.from_pretrained(f"{folder}/{kind}-peft-merged"), kind)
    return there, off(ours, back)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default="build/qkv")
    parser.add_argument("--work")
    options = parser.parse_args()
    qkv = os.path.abspath(options.qkv)
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or temporary
        texts(folder)
        for kind in KINDS:
            there, back = check(kind, qkv, folder)
            fine = max(there, back) <= TOLERANCE
            failed += not fine
            print(f"{kind:12} qkv in PEFT {there:.2g}, PEFT in qkv {back:.2g}"
                  f"{'' if fine else '  WRONG'}", flush=True)
    print(f"{len(KINDS) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
