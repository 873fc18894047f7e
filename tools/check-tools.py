#!/usr/bin/env python3
"""check-tools.py - other tools take our directories: the same answers as qkv's own. By hand.

    python tools/check-tools.py [--qkv build/qkv] [--text FILE]

Trains a small model of each kind with qkv and hands its directory to every tool that is installed:
CTranslate2's converter, optimum with ONNX Runtime, TransformerLens. Greedy continuations are
compared id by id, translations as text, probabilities of classes and logits as numbers. What a
tool refuses is printed with its reason. Transformers, sentence-transformers, PEFT and llama.cpp
have scripts of their own: check-transformers.py, check-peft.py, check-gguf.py."""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile

KINDS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "classifier", "marian")
TOKENS, TOLERANCE = 20, 1e-4
PROMPT = "The man"


class Qkv:
    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder

    def __call__(self, *args, text=None):
        out = subprocess.run([self.program, *args], cwd=self.folder, check=True, input=text,
                             stdout=subprocess.PIPE, text=True)
        return out.stdout

    def train(self, kind, text):
        common = ["--steps", "60", "--quiet", "--out", kind]
        size = ["--model", "nano", "--vocab", "400"]
        with open(f"{self.folder}/text", "w", encoding="utf-8") as f:
            f.write(text)
        lines = [x for x in text.split("\n") if x.strip()][:300]
        if kind == "classifier":
            with open(f"{self.folder}/labels.tsv", "w", encoding="utf-8") as f:
                f.writelines(f"{'long' if len(x) > 40 else 'short'}\t{x}\n" for x in lines)
            self("train", "mlm", "--data", "text", *size, "--steps", "20", "--quiet", "--out",
                 "words")
            self("train", "classify", "--data", "labels.tsv", "--init", "words", *common)
        elif kind == "marian":
            for name, make in (("source", str), ("target", str.upper)):
                with open(f"{self.folder}/{name}", "w", encoding="utf-8") as f:
                    f.writelines(make(x) + "\n" for x in lines)
            self("train", "translate", "--source", "source", "--target", "target", "--norm",
                 "post", *size, *common)
        else:
            self("train", "lm", "--data", "text", "--layout", kind, *size, *common)
        return f"{self.folder}/{kind}"

    def greedy(self, kind):
        return json.loads(self("generate", kind, "--prompt", PROMPT, "--greedy", "--tokens",
                               str(TOKENS), "--json"))["ids"]

    def translation(self, kind, line):
        return self("translate", kind, "--beam", "1", text=line + "\n").strip()

    def probabilities(self, kind, line):
        return json.loads(self("classify", kind, line, "--json"))["probs"]


def tokenizer_of(folder):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    path = f"{folder}/tokenizer.json"  # AutoTokenizer cuts texts of a qwen2 in its own way
    return (PreTrainedTokenizerFast(tokenizer_file=path) if os.path.exists(path)
            else AutoTokenizer.from_pretrained(folder))


def same_start(a, b):
    """0 where the texts are the same as far as the shorter goes: tools have other limits."""
    a, b = a.split(), b.split()
    n = min(len(a), len(b))
    return 0.0 if n and a[:n] == b[:n] else 1.0


# ---- tools: how far the answer is from qkv's; None where a tool does not do the kind ----


def ctranslate2(qkv, kind, folder):
    import ctranslate2 as tool
    from transformers import AutoTokenizer

    out = f"{folder}-ct2"
    if kind == "classifier":
        return None
    tool.converters.TransformersConverter(folder).convert(out, force=True)
    if kind == "marian":
        words = AutoTokenizer.from_pretrained(folder)
        source = words.convert_ids_to_tokens(words.encode(PROMPT))
        result = tool.Translator(out).translate_batch([source], beam_size=1)
        ids = words.convert_tokens_to_ids(result[0].hypotheses[0])
        return same_start(words.decode(ids, skip_special_tokens=True),
                          qkv.translation(kind, PROMPT))
    words = tokenizer_of(folder)
    prompt = words.convert_ids_to_tokens(words.encode(PROMPT, add_special_tokens=False))
    result = tool.Generator(out).generate_batch([prompt], max_length=TOKENS, sampling_topk=1,
                                                include_prompt_in_result=False)
    theirs, ours = result[0].sequences_ids[0], qkv.greedy(kind)
    return sum(a != b for a, b in zip(theirs, ours)) / len(ours)


def onnx(qkv, kind, folder):
    import torch
    from optimum import onnxruntime
    from transformers import AutoTokenizer

    if kind == "classifier":
        words = AutoTokenizer.from_pretrained(folder)
        model = onnxruntime.ORTModelForSequenceClassification.from_pretrained(folder, export=True)
        logits = torch.as_tensor(model(**words(PROMPT, return_tensors="pt")).logits)
        shares = logits.softmax(-1)[0].tolist()
        ours = qkv.probabilities(kind, PROMPT)
        return max(abs(p - ours[model.config.id2label[i]]) for i, p in enumerate(shares))
    if kind == "marian":
        words = AutoTokenizer.from_pretrained(folder)
        model = onnxruntime.ORTModelForSeq2SeqLM.from_pretrained(folder, export=True)
        ids = model.generate(**words(PROMPT, return_tensors="pt"), num_beams=1, do_sample=False)
        return same_start(words.decode(ids[0], skip_special_tokens=True),
                          qkv.translation(kind, PROMPT))
    words = tokenizer_of(folder)
    model = onnxruntime.ORTModelForCausalLM.from_pretrained(folder, export=True)
    ids = torch.tensor([words.encode(PROMPT, add_special_tokens=False)])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS,
                         do_sample=False, pad_token_id=0)
    theirs, ours = out[0, ids.shape[1]:].tolist(), qkv.greedy(kind)
    return sum(a != b for a, b in zip(theirs, ours)) / len(ours)


def transformer_lens(qkv, kind, folder):
    import torch
    from transformer_lens import HookedTransformer
    from transformers import AutoModelForCausalLM

    if kind in ("classifier", "marian"):
        return None
    words, source = tokenizer_of(folder), AutoModelForCausalLM.from_pretrained(folder)
    model = HookedTransformer.from_pretrained_no_processing(folder, hf_model=source,
                                                            tokenizer=words, device="cpu")
    ids = torch.tensor([words.encode(PROMPT, add_special_tokens=False)])
    theirs, ours = [], qkv.greedy(kind)
    with torch.no_grad():
        for _ in ours:
            theirs.append(model(ids)[0, -1].argmax().item())
            ids = torch.cat([ids, torch.tensor([[theirs[-1]]])], 1)
    return sum(a != b for a, b in zip(theirs, ours)) / len(ours)


TOOLS = {"ctranslate2": (ctranslate2, "ctranslate2"), "onnx": (onnx, "optimum.onnxruntime"),
         "transformer_lens": (transformer_lens, "transformer_lens")}


def installed(module):
    try:
        importlib.import_module(module)
        return True
    except ImportError as e:
        print(f"{module} is not installed: {e}")
        return False


def ask(tool, qkv, kind, folder):
    try:
        return tool(qkv, kind, folder)
    except Exception as e:  # pylint: disable=broad-except
        return str(e).strip().split("\n", maxsplit=1)[0][:100] or type(e).__name__


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default="build/qkv")
    parser.add_argument("--text", default="docs/tour.md")
    options = parser.parse_args()
    with open(options.text, encoding="utf-8") as f:
        text = f.read()[:60000]
    tools = {name: tool for name, (tool, module) in TOOLS.items() if installed(module)}
    counts = {"same": 0, "other": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as folder:
        qkv = Qkv(options.qkv, folder)
        for kind in KINDS:
            path = qkv.train(kind, text)
            for name, tool in tools.items():
                off = ask(tool, qkv, kind, path)
                if off is None:
                    continue
                what = ("refused" if isinstance(off, str) else "same" if off <= TOLERANCE
                        else "other")
                counts[what] += 1
                print(f"{kind:11} {name:17} {what}"
                      f"{'' if what == 'same' else f': {off}'}", flush=True)
    print(f"{counts['same']} passed, {counts['other'] + counts['refused']} failed")
    return counts["other"] > 0


if __name__ == "__main__":
    sys.exit(main())
