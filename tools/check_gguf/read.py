"""read.py - GGUF files of llama.cpp's converter and quantiser, made model directories by qkv."""
import json
import os
import random
import shutil
import subprocess
import sys

import gguf
import torch

from check_transformers.evaluate import check, check_ids, tensors_of, varied

from . import models, write
from .llama import Model, quantise
from .write import TABLE_OF_GELU, TOLERANCE, back, check_error, logits_of

# llama.cpp's numbers of file types, all matrices of which have that type.
KINDS = [("Q4_0", 2), ("Q4_1", 3), ("Q5_0", 8), ("Q5_1", 9), ("Q8_0", 7), ("Q2_K", 10),
         ("Q3_K_M", 12), ("Q4_K_M", 15), ("Q5_K_M", 17), ("Q6_K", 18)]
# Phi-3's wants a tokenizer.model, Llama's knows no unigram model.
NOT_CONVERTED = ("phi3", "llama, unigram")
ROUNDED = TOLERANCE["q8_0"]

# The converter knows a tokenizer by a hash of what it does; ours has none.
RUN = """import sys; sys.path.insert(0, {folder!r}); sys.path.insert(0, {folder!r} + "/gguf-py")
from conversion.base import TextModel
import transformers; transformers.AutoTokenizer = transformers.PreTrainedTokenizerFast
TextModel.get_vocab_base_pre = lambda self, tokenizer: {pre!r}
sys.argv = ["convert_hf_to_gguf.py", {model!r}, "--outfile", {out!r}, "--outtype", {kind!r}]
import runpy; runpy.run_path({folder!r} + "/convert_hf_to_gguf.py", run_name="__main__")"""


def convert(converter, folder, out, pre, kind):
    if os.path.exists(out):
        os.remove(out)
    code = RUN.format(folder=os.path.abspath(converter), pre=pre, model=folder, out=out, kind=kind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])


def add_context(folder):
    """A member that the converter asks of GPT-2 and transformers 5 does not write."""
    path = os.path.join(folder, "config.json")
    config = json.load(open(path, encoding="utf-8"))
    if config["model_type"] == "gpt2":
        json.dump(config | {"n_ctx": config["n_positions"]}, open(path, "w", encoding="utf-8"))


def check_numbers(path, folder):
    """Matrices whose rows stay where they are, against gguf-py's numbers."""
    tensors = tensors_of(folder)
    same = True
    for t in gguf.GGUFReader(path).tensors:
        name = f"model.layers.{t.name.split('.')[1]}.mlp.down_proj.weight"
        if t.name.endswith("ffn_down.weight") and name in tensors:
            expected = torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy())
            same = same and torch.equal(expected, tensors[name])
    check("numbers of gguf-py", same)


def check_file(qkv, path, model, text, scratch, most):
    out = back(qkv, path, scratch)
    check_numbers(path, out)
    opened = type(model).from_pretrained(out).eval()
    with Model(path) as file:
        ids = file.ids(text[:400])
        check_error("logits", file.logits(ids), logits_of(opened, ids), most)
        return out


def check_encoder_file(qkv, converter, row, text, scratch, rng):
    """The converter leaves poolers out, without which BERT's classifiers are of no use, and does
    not say that a file is a classifier's."""
    if row[0] == "bert, classes":
        return
    folder, out = (os.path.join(scratch, x) for x in ("made", "theirs.gguf"))
    shutil.rmtree(folder, ignore_errors=True)
    model = models.make_encoder(folder, text, *row)
    if not hasattr(model, "classifier"):
        write.set_pooling(folder, model, "first" in row[0])
    convert(converter, folder, out, row[-1], "f32")
    again = back(qkv, out, scratch)
    before, after = ({k: v for k, v in tensors_of(x).items() if not k.startswith("pooler.")}
                     for x in (folder, again))
    check("bit-equal tensors", write.same_bits(before, after, write.rows_left_out(model)),
          f"{len(after)}")
    lines = varied(rng, 1000, ["<s>", "</s>", "[SEP]", "[MASK]"])
    check_ids("ids", qkv.library.encode(again, lines, 1), qkv.library.encode(folder, lines, 1),
              lines)
    with Model(out, pooling=True, rank=hasattr(model, "classifier")) as file:
        write.check_vectors(file, type(model).from_pretrained(again).eval(), again, text,
                            "first" in row[0])


def all_of_it(qkv, text, scratch, converter):
    rng = random.Random(7)
    torch.manual_seed(7)
    for row in models.MODELS if converter else []:
        if row[0] in NOT_CONVERTED:
            continue
        folder, out = (os.path.join(scratch, x) for x in ("made", "theirs.gguf"))
        shutil.rmtree(folder, ignore_errors=True)
        model = models.make(folder, text, *row)
        add_context(folder)
        gelu = TABLE_OF_GELU if model.config.model_type == "gpt2" else 2e-5
        convert(converter, folder, out, row[4], "f32")
        again = check_file(qkv, out, model, text, scratch, gelu)
        before, after = tensors_of(folder), tensors_of(again)
        check("bit-equal tensors", before.keys() == after.keys() and all(
            torch.equal(before[k], after[k]) for k in before), f"{len(after)}")
        lines = varied(rng, 1000, ["<s>", "</s>", "<tool>"])
        check_ids("ids", qkv.library.encode(again, lines, 1),
                  qkv.library.encode(folder, lines, 1), lines)
        if row[0] not in ("llama", "gpt2"):
            continue
        for kind in ("f16", "bf16", "q8_0"):
            print(f" --outtype {kind}")
            convert(converter, folder, out, row[4], kind)
            check_file(qkv, out, model, text, scratch, ROUNDED)
        convert(converter, folder, out, row[4], "f32")
        for kind, number in KINDS:
            print(f" llama_model_quantize {kind}")
            small = os.path.join(scratch, "small.gguf")
            quantise(out, small, number)
            check_file(qkv, small, model, text, scratch, ROUNDED)
    for row in models.ENCODERS if converter else []:
        check_encoder_file(qkv, converter, row, text, scratch, rng)
    if not converter:
        print("read: left out, --converter FOLDER expected")
