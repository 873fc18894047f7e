"""evaluate.py - what all parts of check-transformers share: the verdicts, qkv's command, and its
library where the command shows too little."""
import ctypes
import glob
import json
import os
import shutil
import subprocess

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from transformers import AutoImageProcessor

TOLERANCE = 1e-5
failures = []


def check(what, fine, detail=""):
    print(f"  {'ok  ' if fine else 'FAIL'}  {what}{': ' if detail else ''}{detail}", flush=True)
    if not fine:
        failures.append(what)


def check_same_config(config_type, folder, out, skipped):
    """What of the configuration is about the model is the same; skipped: what is not."""
    skipped = skipped | {"transformers_version", "dtype", "torch_dtype", "_name_or_path",
                         "use_cache"}
    before, after = (config_type.from_pretrained(f).to_dict() for f in (folder, out))
    odd = [k for k, v in before.items() if k not in skipped and after.get(k) != v]
    check("the same configuration", not odd, ", ".join(
        f"{k}: {before[k]} became {after.get(k)}" for k in odd))


def check_close(what, got, expected):
    error = ((got - expected).abs().max() / expected.abs().max()).item()
    check(what, error <= TOLERANCE, f"{error:.2g} of the largest")


def check_prepared(folder, side):
    """That transformers can prepare an image in colour, of another shape, for the model."""
    image = np.random.default_rng(3).integers(0, 256, (side + 4, 2 * side, 3), np.uint8)
    processor = AutoImageProcessor.from_pretrained(folder)
    shape = processor(Image.fromarray(image), return_tensors="np")["pixel_values"].shape
    check("prepared by transformers", shape == (1, 3, side, side), str(shape))


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path


def empty_folder(scratch, name):
    folder = os.path.join(scratch, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


# ---- qkv  ---------------------------------------------


class Ids(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(ctypes.c_int32)), ("count", ctypes.c_size_t),
                ("capacity", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int), ("isa", ctypes.c_uint), ("bf16", ctypes.c_int),
                ("meta", ctypes.c_bool), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p),
                ("user", ctypes.c_void_p)]


SEQUENCES = [("sequences", ctypes.c_size_t), ("offsets", ctypes.c_void_p),
             ("lengths", ctypes.POINTER(ctypes.c_int32))]


class BertInput(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), ("segments", ctypes.c_void_p), *SEQUENCES]


class MarianSide(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), *SEQUENCES, ("queries", ctypes.c_void_p),
                ("begins", ctypes.c_void_p)]


class MaeMasks(ctypes.Structure):
    _fields_ = [("images", ctypes.c_size_t), ("patches", ctypes.c_size_t),
                ("kept", ctypes.c_size_t), ("order", ctypes.POINTER(ctypes.c_int32))]


POINTERS = ("qkv_context_message", "qkv_tensor_ids", "qkv_lm_hidden", "qkv_lm_logits",
            "qkv_bert_hidden", "qkv_bert_word_logits", "qkv_bert_class_logits",
            "qkv_marian_encode", "qkv_marian_decode", "qkv_marian_logits", "qkv_data",
            "qkv_tensor_from", "qkv_mae_encode", "qkv_mae_decode", "qkv_mae_patches",
            "qkv_mae_loss", "qkv_vit_logits", "qkv_vit_vectors", "qkv_vqgan_encode",
            "qkv_vqgan_decode", "qkv_perceptual_distance")


def int32s(numbers):
    return (ctypes.c_int32 * len(numbers))(*numbers)


class Tape:
    """A model, opened, and a tape without gradients. Tensors are pointers."""

    def __init__(self, library, folder):
        self.library, self.lib, self.kept = library, library.lib, []
        self.model, self.tape = ctypes.c_void_p(), ctypes.c_void_p()
        library.must(self.lib.qkv_hub_load(ctypes.byref(self.model), library.ctx,
                                           folder.encode()))
        library.must(self.lib.qkv_tape_create(ctypes.byref(self.tape), library.ctx))
        self.lib.qkv_tape_mode(self.tape, ctypes.c_bool(False), ctypes.c_bool(False))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.qkv_tape_destroy(self.tape)
        self.lib.qkv_model_destroy(self.model)

    def ids(self, array):
        """An i32 tensor of a nested list."""
        array = np.asarray(array, np.int32)
        shape = (ctypes.c_size_t * array.ndim)(*array.shape)
        return ctypes.c_void_p(self.lib.qkv_tensor_ids(
            self.tape, int32s(array.flatten().tolist()), array.ndim, shape))

    def reals(self, array):
        """A copy of an array of floats."""
        array = np.ascontiguousarray(array, np.float32)
        shape = (ctypes.c_size_t * array.ndim)(*array.shape)
        return ctypes.c_void_p(self.lib.qkv_tensor_from(
            self.tape, ctypes.c_void_p(array.ctypes.data), array.ndim, shape))

    def lengths(self, numbers):
        self.kept.append(int32s(numbers))
        return ctypes.cast(self.kept[-1], ctypes.POINTER(ctypes.c_int32))

    def call(self, function, *args):
        return ctypes.c_void_p(getattr(self.lib, function)(self.model, self.tape, *args))

    def read(self, tensor, *shape):
        data = self.lib.qkv_data(self.tape, tensor)
        self.library.must(self.lib.qkv_tape_status(self.tape))
        floats = ctypes.cast(data, ctypes.POINTER(ctypes.c_float))
        return torch.from_numpy(np.ctypeslib.as_array(floats, shape).copy())


class Library:
    def __init__(self, path, threads):
        self.lib = ctypes.CDLL(path)
        for name in POINTERS:
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p()
        options = Options(threads=threads, isa=0x7fffffff)
        self.must(self.lib.qkv_context_create(ctypes.byref(self.ctx), ctypes.byref(options)))

    def must(self, status):
        if status:
            message = ctypes.string_at(self.lib.qkv_context_message(self.ctx))
            raise RuntimeError(message.decode())

    def encode(self, folder, texts, flags=0):
        """Ids of every text. flags: QKV_ENCODE_*."""
        tokenizer, ids, out = ctypes.c_void_p(), Ids(), []
        self.must(self.lib.qkv_tokenizer_load(ctypes.byref(tokenizer), self.ctx, folder.encode()))
        for text in texts:
            data = text.encode()
            ids.count = 0
            self.must(self.lib.qkv_tokenizer_encode(tokenizer, data, ctypes.c_size_t(len(data)),
                                                    ctypes.c_uint(flags), ctypes.byref(ids)))
            out.append(ids.data[:ids.count])
        self.lib.qkv_ids_free(ctypes.byref(ids), self.ctx)
        self.lib.qkv_tokenizer_destroy(tokenizer)
        return out

    def encode_pairs(self, folder, pairs):
        """Ids and types of every pair of texts, special tokens added."""
        tokenizer, ids, types, out = ctypes.c_void_p(), Ids(), Ids(), []
        self.must(self.lib.qkv_tokenizer_load(ctypes.byref(tokenizer), self.ctx, folder.encode()))
        for pair in pairs:
            a, b = (text.encode() for text in pair)
            ids.count = types.count = 0
            self.must(self.lib.qkv_tokenizer_encode_pair(
                tokenizer, a, ctypes.c_size_t(len(a)), b, ctypes.c_size_t(len(b)),
                ctypes.c_uint(1), ctypes.byref(ids), ctypes.byref(types)))
            out.append((ids.data[:ids.count], types.data[:types.count]))
        for array in (ids, types):
            self.lib.qkv_ids_free(ctypes.byref(array), self.ctx)
        self.lib.qkv_tokenizer_destroy(tokenizer)
        return out

    def logits(self, folder, ids, vocab):
        """Of a model that continues text: (len(ids), vocab)."""
        with Tape(self, folder) as t:
            h = t.call("qkv_lm_hidden", t.ids([ids]), ctypes.c_size_t(0), None, None)
            return t.read(t.call("qkv_lm_logits", h), len(ids), vocab)


class Qkv:
    def __init__(self, build, threads):
        self.command, self.threads = os.path.join(build, "qkv"), threads
        self.library = Library(os.path.join(build, "libqkv.so"), threads)

    def run(self, *words, text=""):
        line = [self.command, *map(str, words), "--threads", str(self.threads)]
        done = subprocess.run(line, capture_output=True, text=True, input=text, check=False)
        if done.returncode:
            raise RuntimeError(f"qkv {words[0]}: exit {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.run(*words, "--json"))


# ---- one model directory, evaluated by both  ---------------------------------------------


def open_model(maker, folder, **more):
    """By transformers; in its file, every key and no other."""
    model, info = maker.from_pretrained(folder, output_loading_info=True, **more)
    wrong = {k: v for k, v in info.items() if v}
    check("every key, no other", not wrong, str(wrong)[:300] if wrong else "")
    return model.eval()


def check_ids(what, got, expected, texts):
    different = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    check(f"{what} of {len(texts)} texts", len(got) == len(expected) and not different,
          f"{texts[different[0]]!r}" if different else "")


def tensors_of(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with safe_open(path, "pt") as f:
            out |= {name: f.get_tensor(name) for name in f.keys()}
    return out


def convert(qkv, folder, scratch, dtype, shard, torch_type, tensors=None):
    """Takes the directory through `qkv convert`: the same tensors (or those named so), bit by bit,
    in another."""
    print(f" convert --dtype {dtype} --shard {shard}")
    out = os.path.join(scratch, "converted")
    shutil.rmtree(out, ignore_errors=True)
    qkv.run("convert", folder, out, "--dtype", dtype, "--shard", shard)
    before, after = tensors or tensors_of(folder), tensors_of(out)
    odd = before.keys() ^ after.keys()
    check("the same keys", not odd, f"{len(after)} tensors, {sorted(odd)[:3] if odd else 'all'}")
    check("bit-equal tensors", all(
        torch.equal(before[k].to(torch_type).view(torch.uint8), after[k].view(torch.uint8))
        for k in before.keys() & after.keys()))
    check("the configuration's number type", json.load(open(os.path.join(out, "config.json")))
          ["torch_dtype"] == str(torch_type).split(".")[1])
    return out


# ---- texts  ---------------------------------------------

END = "<|endoftext|>"
PARTS = ["\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "漢字", "かな",
         "한국어", "e\u0301", "n\u0303", "\u00a0", "\u2003", "\u3000", "\t", "  ", "    ", " ",
         "'s", "'LL", "don't", "I'm", "''", "2024", "٣", "½", "hello", " World", "ß", "İ", END,
         "<|endof", "...", "!?", "—", "\u200d", "\ufeff", "\u0085", "\x0b", "\u2028", "नमस्ते",
         "مرحبا", "a", " the", "\x01", "\x7f", "\U00010400", "int main(void)", "\r"]


def varied(rng, count, more=()):
    """Odd lines, of parts that tokenizers tend to disagree on."""
    parts = [*PARTS, *more]
    return ["".join(rng.choices(parts, k=rng.randint(0, 12))) for _ in range(count)]
