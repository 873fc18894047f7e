"""write.py - model directories made GGUF files by qkv, and run by llama.cpp."""
import json
import os
import random
import shutil
import unicodedata

import gguf
import torch
from transformers import PreTrainedTokenizerFast

from check_transformers.evaluate import check, check_ids, tensors_of, varied

from . import models
from .llama import Model, quantise

# Of the largest logit. llama.cpp looks GELU up in a table of halves, and rounds x as well: to the
# halves or bf16 that it meets, and to 8 bits where it meets integers.
TOLERANCE = {"f32": 2e-5, "f16": 5e-3, "bf16": 3e-2, "q8_0": 8e-2, "q4_0": 8e-2}
TABLE_OF_GELU = 1e-3


def worst(got, expected):
    return ((got - expected).abs().max() / expected.abs().max()).item()


def check_error(what, got, expected, most):
    error = worst(got, expected)
    check(what, error <= most, f"{error:.2g} of the largest")


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def to_gguf(qkv, folder, scratch, dtype="auto"):
    out = os.path.join(scratch, "model.gguf")
    if os.path.exists(out):
        os.remove(out)
    qkv.run("convert", folder, out, "--to", "gguf", "--dtype", dtype)
    return out


def back(qkv, path, scratch, name="back"):
    out = os.path.join(scratch, name)
    shutil.rmtree(out, ignore_errors=True)
    qkv.run("convert", path, out)
    return out


def check_tokens(qkv, folder, again, file, text, rng):
    """Ids of odd lines before and after; of ordinary ones by llama.cpp, too."""
    lines = varied(rng, 1000, ["<s>", "</s>", "<tool>", "[SEP]", "[MASK]", "x"])
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    expected = qkv.library.encode(folder, lines, 1)
    check_ids("ids after both conversions", qkv.library.encode(again, lines, 1), expected, lines)
    check("chat template", PreTrainedTokenizerFast.from_pretrained(again).chat_template ==
          tokenizer.chat_template)
    check("special tokens", PreTrainedTokenizerFast.from_pretrained(again).special_tokens_map ==
          tokenizer.special_tokens_map)
    plain = [line for line in text.split("\n") if line.strip()][:300]
    check_ids("llama.cpp's ids", [file.ids(line) for line in plain],
              [tokenizer(line)["input_ids"] for line in plain], plain)
    normal = [line for line in lines if unicodedata.is_normalized("NFC", line)]
    same = sum(file.ids(line) == tokenizer(line)["input_ids"] for line in normal)
    print(f"        llama.cpp's ids of odd lines: {same} of {len(normal)} alike")


def same_bits(before, after, left_out=0):
    """left_out: rows of the table of positions that a file does not have."""
    first = {k: left_out for k in before if k.endswith("position_embeddings.weight")}
    return before.keys() == after.keys() and all(
        torch.equal(before[k][first.get(k, 0):].view(torch.uint8),
                    after[k][first.get(k, 0):].view(torch.uint8)) for k in before)


def rows_left_out(model):
    return model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0


def check_back(folder, again, left_out=0):
    before, after = tensors_of(folder), tensors_of(again)
    check("bit-equal tensors", same_bits(before, after, left_out), f"{len(after)} tensors")


def check_blocks(path, dtype, ours, scratch):
    """Matrices of linear layers have the bytes that llama.cpp's quantiser gives them."""
    theirs = os.path.join(scratch, "theirs.gguf")
    quantise(path, theirs, {"q8_0": 7, "q4_0": 2}[dtype])
    expected = {t.name: t.data for t in gguf.GGUFReader(theirs).tensors}
    found = [t for t in gguf.GGUFReader(ours).tensors
             if t.name.startswith("blk.") and t.tensor_type.name.lower() == dtype]
    different = sum(int((t.data != expected[t.name]).sum()) for t in found)
    size = sum(t.data.size for t in found)  # a compiler that fuses x * d + 8.5 rounds it otherwise
    check(f"{dtype}: bytes of llama.cpp's quantiser",
          found and different <= (1e-5 * size if dtype == "q4_0" else 0),
          f"{different} of {size} differ")


def check_decoder(qkv, folder, model, text, scratch, rng):
    path = to_gguf(qkv, folder, scratch)
    again = back(qkv, path, scratch)
    check_back(folder, again)
    gelu = model.config.model_type == "gpt2"
    with Model(path) as file:
        check_tokens(qkv, folder, again, file, text, rng)
        ids = file.ids(text[:400])
        check_error("f32: logits", file.logits(ids), logits_of(model, ids),
                    TABLE_OF_GELU if gelu else TOLERANCE["f32"])
        for at in (0, 500, 900):
            prompt = text[at:at + 60]
            made = qkv.json("generate", folder, "--prompt", prompt, "--tokens", 40, "--greedy")
            theirs = file.greedy(qkv.library.encode(folder, [prompt], 1)[0], 40)
            check("greedy tokens", made["ids"] == theirs, f"{len(theirs)}")
    f32 = os.path.join(scratch, "f32.gguf")
    shutil.copy(path, f32)
    for dtype, most in TOLERANCE.items():
        path = to_gguf(qkv, folder, scratch, dtype)
        if dtype.startswith("q"):
            check_blocks(f32, dtype, path, scratch)
        rounded = type(model).from_pretrained(back(qkv, path, scratch)).eval()
        with Model(path) as file:
            check_error(f"{dtype}: logits", file.logits(ids), logits_of(rounded, ids),
                        max(most, TABLE_OF_GELU if gelu else 0))
    for bits, dtype in (("int8", "q8_0"), ("int4", "q4_0")):
        check_quantised(qkv, folder, bits, dtype, scratch, ids)


def check_quantised(qkv, folder, bits, dtype, scratch, ids):
    """A directory of integers: they are kept, their scales become halves."""
    small, f32 = os.path.join(scratch, "small"), os.path.join(scratch, "f32")
    for path in (small, f32):
        shutil.rmtree(path, ignore_errors=True)
    qkv.run("quantize", folder, "--to", bits, "--out", small)
    qkv.run("convert", small, f32)
    path = to_gguf(qkv, small, scratch)
    before, after = tensors_of(f32), tensors_of(back(qkv, path, scratch))
    error = max(worst(after[k], before[k]) for k in before if "embed" not in k and "wte" not in k
                and "lm_head" not in k)
    check(f"{bits}: weights", error <= (6e-4 if bits == "int8" else 0), f"{error:.2g}")
    with Model(path) as file:
        check_error(f"{bits} as {dtype}: logits", file.logits(ids),
                    qkv.library.logits(f32, ids, models.VOCAB), TOLERANCE[dtype])


def set_pooling(folder, model, first):
    """The files of sentence-transformers, by the first token or the mean."""
    pooling = {"word_embedding_dimension": model.config.hidden_size,
               "pooling_mode_cls_token": first, "pooling_mode_mean_tokens": not first}
    modules = [{"idx": i, "name": str(i), "path": path,
                "type": f"sentence_transformers.models.{kind}"}
               for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])]
    os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
    json.dump(pooling, open(os.path.join(folder, "1_Pooling", "config.json"), "w"))
    json.dump(modules, open(os.path.join(folder, "modules.json"), "w"))


def check_encoder(qkv, folder, model, text, scratch, rng, first):
    if first:
        set_pooling(folder, model, True)
    path = to_gguf(qkv, folder, scratch)
    again = back(qkv, path, scratch)
    check_back(folder, again, rows_left_out(model))
    classes = hasattr(model, "classifier")
    if classes:
        labels = [json.load(open(os.path.join(x, "config.json")))["id2label"]
                  for x in (folder, again)]
        check("names of classes", labels[0] == labels[1])
    with Model(path, pooling=True) as file:
        check_tokens(qkv, folder, again, file, text, rng)
        check_vectors(file, model, folder, text, first)


def check_vectors(file, model, folder, text, first):
    classes = hasattr(model, "classifier")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    for line in [x for x in text.split("\n") if x.strip()][:3]:
        ids = tokenizer(line)["input_ids"][:200]
        with torch.no_grad():
            out = model(torch.tensor([ids]))
        if classes:
            check_error("logits", file.vector(ids, 3), out.logits[0], 2 * TABLE_OF_GELU)
            continue
        expected = out.last_hidden_state[0][0] if first else out.last_hidden_state[0].mean(0)
        check_error("vector", file.vector(ids), expected, 2 * TABLE_OF_GELU)


def all_of_it(qkv, text, scratch, _):
    rng = random.Random(7)
    torch.manual_seed(7)
    for row in models.MODELS:
        folder = os.path.join(scratch, "made")
        shutil.rmtree(folder, ignore_errors=True)
        model = models.make(folder, text, *row)
        check_decoder(qkv, folder, model, text, scratch, rng)
    for row in models.ENCODERS:
        folder = os.path.join(scratch, "made")
        shutil.rmtree(folder, ignore_errors=True)
        model = models.make_encoder(folder, text, *row)
        check_encoder(qkv, folder, model, text, scratch, rng, "first" in row[0])
