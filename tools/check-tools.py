#!/usr/bin/env python3
"""check-tools.py - other tools take our directories: the same answers as qkv's own. By hand.

    python tools/check-tools.py [--qkv build/qkv] [--text FILE] [--tool NAME ..] [--kind NAME ..]

Trains a small model of each kind with qkv and hands its directory to every tool that is installed:
transformers, sentence-transformers, CTranslate2's converter, optimum with ONNX Runtime,
TransformerLens, timm. Greedy continuations and translations are compared token by token,
probabilities, logits and vectors as numbers. What a tool refuses is printed with its reason, and
whether it refuses what transformers saves of the same model, too. The last lines are a table.
Adapters and GGUF files have scripts of their own: check-peft.py, check-gguf.py."""

import argparse
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is local

TOKENS, TOLERANCE = 20, 1e-4  # of the largest number
PROMPT, BLANK = "The man", "The [MASK] of a head"
SIZE = ["--model", "nano", "--vocab", "400"]


# ---- qkv: models, and its answers ----


class Qkv:
    def __init__(self, program, folder, text):
        self.program, self.folder = os.path.abspath(program), folder
        self.lines = [x for x in text.split("\n") if x.strip()][:300]
        self.write("text", text)

    def __call__(self, *args, text=None):
        out = subprocess.run([self.program, *args], cwd=self.folder, check=True, input=text,
                             stdout=subprocess.PIPE, text=True)
        return out.stdout

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as f:
            f.write(text)

    def train(self, task, out, *args, steps="60"):
        self("train", task, *args, "--steps", steps, "--quiet", "--out", out)

    def model(self, kind):
        """The directory of a model of that kind, trained if need be."""
        folder = f"{self.folder}/{kind}"
        if not os.path.exists(folder):
            MAKERS[family(kind)](self, kind)
        return folder

    def json(self, *args):
        return json.loads(self(*args, "--json"))

    def greedy(self, kind):
        return self.json("generate", kind, "--prompt", PROMPT, "--greedy", "--tokens",
                         str(TOKENS))["ids"]

    def logits(self, kind, ids, columns):
        from check_transformers.evaluate import Library

        library = Library(f"{os.path.dirname(self.program)}/libqkv.so", 0)
        return library.logits(f"{self.folder}/{kind}", ids, columns)


def make_lm(qkv, kind):
    qkv.train("lm", kind, "--data", "text", "--layout", kind, *SIZE)


def make_bert(qkv, kind):
    qkv.train("mlm", kind, "--data", "text", *SIZE, steps="20")


def make_classifier(qkv, kind):
    qkv.model("bert")
    qkv.write("labels.tsv", "".join(f"{'long' if len(x) > 40 else 'short'}\t{x}\n"
                                    for x in qkv.lines))
    qkv.train("classify", kind, "--data", "labels.tsv", "--init", "bert")


def make_vectors(qkv, kind):
    qkv.model("bert")
    qkv.write("pairs.tsv", "".join(f"{x}\t{x.upper()}\n" for x in qkv.lines if "\t" not in x))
    qkv.train("embed", kind, "--data", "pairs.tsv", "--init", "bert", steps="20")


def make_marian(qkv, kind):
    qkv.write("source", "".join(x + "\n" for x in qkv.lines))
    qkv.write("target", "".join(x.upper() + "\n" for x in qkv.lines))
    qkv.train("translate", kind, "--source", "source", "--target", "target", "--norm", "post",
              *SIZE)


def make_vit(qkv, kind):
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(1)
    for i in range(40):
        name = f"{qkv.folder}/images/{'even' if i % 2 else 'odd'}"
        os.makedirs(name, exist_ok=True)
        x = random.integers(i % 2 * 60, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(x).save(f"{name}/{i}.png")
    qkv.train("classify", kind, "--data", "images", "--type", "vit", "--model", "nano",
              steps="20")


MAKERS = {"lm": make_lm, "bert": make_bert, "classifier": make_classifier,
          "vectors": make_vectors, "marian": make_marian, "vit": make_vit}
KINDS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", *tuple(MAKERS)[1:])


def family(kind):
    return kind if kind in MAKERS else "lm"


# ---- what answers are compared as: 0 is the same ----


def unlike(theirs, ours):
    """The share of places that differ, as far as the shorter list goes: tools have other limits."""
    n = min(len(theirs), len(ours))
    return sum(a != b for a, b in zip(theirs, ours)) / n if n else 1.0


def off(theirs, ours):
    """Of the largest number."""
    import torch

    a, b = (torch.as_tensor(x, dtype=torch.float32).flatten() for x in (theirs, ours))
    return ((a - b).abs().max() / b.abs().max()).item()


def off_labels(qkv, kind, probs, names, *what):
    ours = qkv.json("classify", kind, *what)["probs"]
    return off(probs, [ours[names[i]] for i in range(len(probs))])


def off_fills(qkv, words, logits, ids):
    """The likeliest tokens of a blank. logits: (tokens, vocabulary)."""
    probs = logits[ids.index(words.mask_token_id)].softmax(-1)
    fills = qkv.json("fill", "bert", BLANK, "--top-k", "5")["fills"]
    top = probs.topk(5)
    return unlike([words.decode([i]) for i in top.indices.tolist()],
                  [f["token"] for f in fills]) or off(top.values, [f["prob"] for f in fills])


def off_mean(qkv, kind, hidden):
    """The normalised mean of hidden states (tokens, width)."""
    import torch

    ours = qkv.json("embed", kind, PROMPT)["vector"]
    return off(torch.nn.functional.normalize(torch.as_tensor(hidden).mean(0), dim=-1), ours)


# ---- inputs as transformers makes them ----


def words_of(folder):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    with open(f"{folder}/config.json", encoding="utf-8") as f:
        qwen = json.load(f)["model_type"] == "qwen2"  # AutoTokenizer cuts its texts in its own way
    return (PreTrainedTokenizerFast if qwen else AutoTokenizer).from_pretrained(folder)


def prompt_of(folder):
    words = words_of(folder)
    return words, words.encode(PROMPT, add_special_tokens=False)


def image_of(folder):
    """A file, and the model's input (1, 3, height, width)."""
    from PIL import Image
    from transformers import AutoImageProcessor

    path = os.path.join(os.path.dirname(folder), "images", "odd", "0.png")
    image = Image.open(path).convert("RGB")
    return path, AutoImageProcessor.from_pretrained(folder)(
        image, return_tensors="pt")["pixel_values"]


def classes(name):
    """transformers' classes by family, or those of another library that are named after them."""
    return {"lm": f"{name}ModelForCausalLM", "bert": f"{name}ModelForMaskedLM",
            "classifier": f"{name}ModelForSequenceClassification",
            "vectors": f"{name}Model" if name == "Auto" else f"{name}ModelForFeatureExtraction",
            "marian": f"{name}ModelForSeq2SeqLM", "vit": f"{name}ModelForImageClassification"}


# ---- tools: each has a function of (qkv, kind, folder) for families that it does ----


def ask_like_transformers(qkv, kind, folder, model):
    """A model that is called as transformers' are."""
    import torch

    if kind == "vit":
        path, pixels = image_of(folder)
        probs = torch.as_tensor(model(pixel_values=pixels).logits)[0].softmax(-1)
        return off_labels(qkv, kind, probs.tolist(), model.config.id2label, path)
    if family(kind) == "lm":
        ids = torch.tensor([prompt_of(folder)[1]])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS,
                             do_sample=False, pad_token_id=0)
        return unlike(out[0, ids.shape[1]:].tolist(), qkv.greedy(kind))
    words = words_of(folder)
    batch = words(BLANK if kind == "bert" else PROMPT, return_tensors="pt")
    if kind == "marian":
        ids = model.generate(**batch, num_beams=1, do_sample=False)
        return unlike(words.decode(ids[0], skip_special_tokens=True).split(),
                      qkv("translate", kind, "--beam", "1", text=PROMPT + "\n").split())
    with torch.no_grad():
        out = model(**batch)
    if kind == "vectors":
        return off_mean(qkv, kind, out.last_hidden_state[0])
    logits = torch.as_tensor(out.logits)[0]
    if kind == "bert":
        return off_fills(qkv, words, logits, batch["input_ids"][0].tolist())
    return off_labels(qkv, kind, logits.softmax(-1).tolist(), model.config.id2label, PROMPT)


def ask_transformers(qkv, kind, folder):
    import transformers

    make = getattr(transformers, classes("Auto")[family(kind)])
    return ask_like_transformers(qkv, kind, folder, make.from_pretrained(folder).eval())


def ask_onnx(qkv, kind, folder):
    from optimum import onnxruntime

    make = getattr(onnxruntime, classes("ORT")[family(kind)])
    return ask_like_transformers(qkv, kind, folder, make.from_pretrained(folder, export=True))


def ask_ctranslate2(qkv, kind, folder):
    import numpy as np
    import ctranslate2 as tool

    out = f"{folder}-ct2"
    tool.converters.TransformersConverter(folder).convert(out, force=True)
    words = words_of(folder)
    source = words.convert_ids_to_tokens(words.encode(PROMPT))
    if kind == "marian":
        result = tool.Translator(out).translate_batch([source], beam_size=1)
        ids = words.convert_tokens_to_ids(result[0].hypotheses[0])
        return unlike(words.decode(ids, skip_special_tokens=True).split(),
                      qkv("translate", kind, "--beam", "1", text=PROMPT + "\n").split())
    if kind == "vectors":
        hidden = tool.Encoder(out).forward_batch([source]).last_hidden_state
        return off_mean(qkv, kind, np.array(hidden)[0])
    prompt = words.convert_ids_to_tokens(prompt_of(folder)[1])
    result = tool.Generator(out).generate_batch([prompt], max_length=TOKENS, sampling_topk=1,
                                                include_prompt_in_result=False)
    return unlike(result[0].sequences_ids[0], qkv.greedy(kind))


def ask_transformer_lens(qkv, kind, folder):
    import torch
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(folder, device="cpu")
    words = words_of(folder)
    ids = words.encode(BLANK) if kind == "bert" else prompt_of(folder)[1] * 5
    with torch.no_grad():
        logits = model(torch.tensor([ids]))[0]
    if kind == "bert":
        return off_fills(qkv, words, logits, ids)
    return off(logits, qkv.logits(kind, ids, logits.shape[1]))


def ask_sentence_transformers(qkv, kind, folder):
    from sentence_transformers import SentenceTransformer

    vector = SentenceTransformer(folder, device="cpu").encode(PROMPT, normalize_embeddings=True)
    return off(vector, qkv.json("embed", kind, PROMPT)["vector"])


def ask_timm(qkv, kind, folder):
    """timm has names of its own: `convert --to timm` writes them."""
    import timm
    import torch
    from transformers import AutoConfig

    c, file = AutoConfig.from_pretrained(folder), f"{folder}-timm.safetensors"
    qkv("convert", kind, file, "--to", "timm", "--quiet")
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=c.image_size, patch_size=c.patch_size,
        num_classes=len(c.id2label), embed_dim=c.hidden_size, depth=c.num_hidden_layers,
        num_heads=c.num_attention_heads, mlp_ratio=c.intermediate_size / c.hidden_size).eval()
    timm.models.load_checkpoint(model, file)
    path, pixels = image_of(folder)
    with torch.no_grad():
        return off_labels(qkv, kind, model(pixels)[0].softmax(-1).tolist(), c.id2label, path)


# Name: the package, the module, its function, the families that it does.
TOOLS = {
    "transformers": ("transformers", "transformers", ask_transformers, tuple(MAKERS)),
    "onnx": ("optimum-onnx", "optimum.onnxruntime", ask_onnx, tuple(MAKERS)),
    "ctranslate2": ("ctranslate2", "ctranslate2", ask_ctranslate2, ("lm", "vectors", "marian")),
    "transformer-lens": ("transformer-lens", "transformer_lens", ask_transformer_lens,
                         ("lm", "bert")),
    "sentence-transformers": ("sentence-transformers", "sentence_transformers",
                              ask_sentence_transformers, ("vectors",)),
    "timm": ("timm", "timm", ask_timm, ("vit",)),
}


def installed(name):
    package, module = TOOLS[name][:2]
    try:
        importlib.import_module(module)
    except Exception as e:  # pylint: disable=broad-except # some need another transformers
        print(f"{package} is not installed: {e}".split("\n", maxsplit=1)[0])
        return False
    print(f"{package} {importlib.metadata.version(package)}")
    return True


def save_again(kind, folder):
    """The directory as transformers saves the same model, with our tokenizer."""
    import transformers

    again = f"{folder}-again"
    shutil.copytree(folder, again, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    getattr(transformers, classes("Auto")[family(kind)]).from_pretrained(folder).save_pretrained(
        again)
    return again


def ask(name, qkv, kind):
    """same, other or refused, and a number or a reason."""
    folder = qkv.model(kind)
    try:
        number = TOOLS[name][2](qkv, kind, folder)
        return ("same" if number <= TOLERANCE else "other"), f"{number:.2g}"
    except Exception as e:  # pylint: disable=broad-except
        reason = str(e).strip().split("\n", maxsplit=1)[0][:100] or type(e).__name__
    try:
        TOOLS[name][2](qkv, kind, save_again(kind, folder))
        return "refused", f"{reason}; but not what transformers saves"
    except Exception:  # pylint: disable=broad-except
        return "refused", f"{reason}; what transformers saves is refused, too"


def print_table(tools, results):
    print("| | " + " | ".join(tools) + " |\n" + "| --- " * (len(tools) + 1) + "|")
    for kind in dict.fromkeys(kind for _, kind in results):
        print(f"| {kind} | " + " | ".join(results.get((name, kind), "") for name in tools) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qkv", default="build/qkv")
    parser.add_argument("--text", default="docs/tour.md")
    parser.add_argument("--tool", choices=TOOLS, nargs="+", default=list(TOOLS))
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=KINDS)
    options = parser.parse_args()
    with open(options.text, encoding="utf-8") as f:
        text = f.read()[:60000]
    tools, results = [name for name in options.tool if installed(name)], {}
    with tempfile.TemporaryDirectory() as folder:
        qkv = Qkv(options.qkv, folder, text)
        for kind in options.kind:
            for name in tools:
                if family(kind) not in TOOLS[name][3]:
                    continue
                results[name, kind], detail = ask(name, qkv, kind)
                print(f"{kind:11} {name:22} {results[name, kind]:8} {detail}", flush=True)
    print_table(tools, results)
    bad = sum(x != "same" for x in results.values())
    print(f"{len(results) - bad} passed, {bad} failed")
    return "other" in results.values()


if __name__ == "__main__":
    sys.exit(main())
