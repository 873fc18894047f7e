"""marian.py - the encoder-decoder in Marian's layout, with its SentencePiece tokenizers."""
import ctypes
import io
import json
import os
import random
import shutil

import sentencepiece
import torch
from transformers import AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer

from .evaluate import (TOLERANCE, MarianSide, Tape, check, check_close, check_ids,
                       check_same_config, convert, empty_folder, open_model, tensors_of, varied,
                       write)

TARGET = 4 # QKV_ENCODE_TARGET

# ---- evaluating  ---------------------------------------------


def batch_of(rng, vocab, rows=3, length=17):
    lengths = [length] + [rng.randint(2, length) for _ in range(rows - 1)]
    return [[rng.randrange(vocab) for _ in range(length)] for _ in range(rows)], lengths


def qkv_logits(qkv, folder, source, lengths, target, vocab):
    with Tape(qkv.library, folder) as t:
        side = MarianSide(t.ids(source), 0, None, t.lengths(lengths))
        memory = t.call("qkv_marian_encode", ctypes.byref(side))
        made = MarianSide(t.ids(target), 0, None, None)
        hidden = t.call("qkv_marian_decode", ctypes.byref(made), memory, ctypes.byref(side), None)
        return t.read(t.call("qkv_marian_logits", hidden), len(target), len(target[0]), vocab)


def check_logits(qkv, folder, model, rng):
    vocab = model.config.vocab_size
    source, lengths = batch_of(rng, vocab)
    target, _ = batch_of(rng, vocab, length=11)
    mask = torch.arange(len(source[0]))[None] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(source), attention_mask=mask.long(),
                         decoder_input_ids=torch.tensor(target)).logits
    check_close(f"logits {tuple(expected.shape)} of a padded batch",
                qkv_logits(qkv, folder, source, lengths, target, vocab), expected)


def check_tokenizer(qkv, folder, rng, maker):
    tokenizer = maker.from_pretrained(folder)
    check(f"{maker.__name__} gives a MarianTokenizer", isinstance(tokenizer, MarianTokenizer),
          type(tokenizer).__name__)
    # transformers drops what is behind a language code alone, and special tokens' spaces
    lines = [line for line in varied(rng, 1000) if "<|endof" not in line]
    check_ids("source ids", qkv.library.encode(folder, lines, 1),
              [tokenizer(line)["input_ids"] for line in lines], lines)
    check_ids("target ids", qkv.library.encode(folder, lines, 1 | TARGET),
              [tokenizer(text_target=line)["input_ids"] for line in lines], lines)
    return tokenizer


# ---- trained here  ---------------------------------------------

# Tokenizer, flags of `train translate`.
TRAINED = [("unigram", []), ("sentencepiece-bpe", ["--set", "activation_function=swish"]),
           ("bpe", ["--set", "share_encoder_decoder_embeddings=false"]),
           ("wordpiece", []), ("char", ["--set", "scale_embedding=false"])]
WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf",
         "six": "sechs", "seven": "sieben", "eight": "acht", "nine": "neun", "ten": "zehn",
         "eleven": "elf", "twelve": "zwölf"}


def write_pairs(scratch, rng, count):
    """Numbers in words, and the same in German and backwards."""
    rows = [rng.choices(list(WORDS), k=rng.randint(1, 6)) for _ in range(count)]
    ends = [rng.choice([".", "!", " ?"]) for _ in rows]
    source = [" ".join(row).capitalize() + end for row, end in zip(rows, ends)]
    target = [" ".join(WORDS[w] for w in reversed(row)) + end for row, end in zip(rows, ends)]
    return source, target, [write(scratch, name, "\n".join(lines) + "\n")
                            for name, lines in (("source.txt", source), ("target.txt", target))]


def check_loss(qkv, folder, model, tokenizer, source, target):
    total, count = 0.0, 0
    for a, b in zip(source, target):
        labels = tokenizer(text_target=b, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(**tokenizer(a, return_tensors="pt"), labels=labels).logits[0].double()
        total += torch.nn.functional.cross_entropy(logits, labels[0], reduction="sum").item()
        count += labels.shape[1]
    paths = [write(folder, "evaluated." + side, "\n".join(lines) + "\n")
             for side, lines in (("source", source), ("target", target))]
    got = qkv.json("eval", folder, "--source", paths[0], "--target", paths[1])
    check(f"loss of {count} tokens", got["tokens"] == count and
          abs(got["loss"] - total / count) <= TOLERANCE * total / count,
          f"{got['loss']:.6f}, transformers {total / count:.6f}")


def check_translations(qkv, folder, model, tokenizer, source, beams):
    got = qkv.run("translate", folder, "--beam", beams, "--max-length-factor", 0,
                  text="\n".join(source) + "\n")
    expected = []
    for at in range(0, len(source), 50):
        batch = tokenizer(source[at:at + 50], padding=True, return_tensors="pt")
        made = model.generate(**batch, num_beams=beams)
        expected += tokenizer.batch_decode(made, skip_special_tokens=True,
                                           clean_up_tokenization_spaces=False)
    got = got.split("\n")[:-1]
    odd = [i for i, (a, b) in enumerate(zip(got, expected)) if a != b]
    check(f"translations of {len(source)} sentences, beam {beams}",
          len(got) == len(expected) and not odd,
          f"{source[odd[0]]!r}: {got[odd[0]]!r}, transformers {expected[odd[0]]!r}" if odd
          else f"{got[0]!r}")


def trained(qkv, _, scratch):
    rng = random.Random(7)
    source, target, paths = write_pairs(scratch, rng, 2000)
    for kind, more in TRAINED:
        print(f"marian-trained: {kind} {' '.join(more)}")
        folder = os.path.join(scratch, "trained-" + kind)
        qkv.run("train", "translate", "--source", paths[0], "--target", paths[1], "--out", folder,
                "--tokenizer", kind, "--vocab", 300, "--model", "nano", "--steps", 200, "--tokens",
                512, "--warmup", 40, "--set", "max_position_embeddings=128", "--set",
                "dropout=0.1", *more)
        model = open_model(MarianMTModel, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        check_logits(qkv, folder, model, rng)
        for side, lines, flags in (("source", source, 1), ("target", target, 1 | TARGET)):
            ids = tokenizer(**{"text" if side == "source" else "text_target": lines})["input_ids"]
            check_ids(f"{side} ids", qkv.library.encode(folder, lines, flags), ids, lines)
        check_loss(qkv, folder, model, tokenizer, source[:100], target[:100])
        for beams in (1, 4):
            check_translations(qkv, folder, model, tokenizer, source[:150], beams)


# ---- made by transformers  ---------------------------------------------


def train_spm(text, path, vocab, kind):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.splitlines()), model_writer=model, vocab_size=vocab,
        model_type=kind, hard_vocab_limit=False, minloglevel=2, bos_id=-1)
    with open(path, "wb") as f:
        f.write(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]


def make_tokenizer(folder, text, vocab):
    """A model for each language, one of each kind; both and made-up pieces in vocab.json."""
    half = len(text) // 2
    pieces = train_spm(text[:half], os.path.join(folder, "source.spm"), vocab // 3, "unigram")
    pieces += train_spm(text[half:], os.path.join(folder, "target.spm"), vocab // 3, "bpe")
    tokens = list(dict.fromkeys(["</s>", "<unk>", *pieces]))
    tokens += [f"\u2581made{i}" for i in range(vocab - 1 - len(tokens))] + ["<pad>"]
    write(folder, "vocab.json", json.dumps({w: i for i, w in enumerate(tokens)}))
    MarianTokenizer.from_pretrained(folder).save_pretrained(folder)
    return len(tokens)


SMALL = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 80,
         "max_position_embeddings": 64, "activation_function": "swish", "scale_embedding": True}
BASE = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "max_position_embeddings": 512, "activation_function": "swish", "scale_embedding": True}
F32, BF16 = ("f32", 0, torch.float32), ("bf16", 1, torch.bfloat16)
# Name, tokens, configuration, (how it is converted ..)
MADE = [
    ("small", 700, SMALL, [F32, ("f16", 0, torch.float16), BF16]),
    ("small, relu, no scale, no dropout", 700, SMALL | {
        "activation_function": "relu", "scale_embedding": False, "dropout": 0.0}, [F32]),
    ("small, gelu, a table for each side", 700, SMALL | {
        "activation_function": "gelu", "share_encoder_decoder_embeddings": False}, [F32]),
    ("the size of opus-mt", 58101, BASE, [F32, ("bf16", 50, torch.bfloat16)]),
]


def make(scratch, name, text, vocab, fields):
    torch.manual_seed(7)
    folder = empty_folder(scratch, "made")
    vocab = make_tokenizer(folder, text, vocab)
    model = MarianMTModel(MarianConfig(
        vocab_size=vocab, pad_token_id=vocab - 1, decoder_start_token_id=vocab - 1,
        eos_token_id=0, forced_eos_token_id=0, bos_token_id=0, num_beams=4, **fields))
    for p in model.parameters(): # biases and norms at their first values would hide mistakes
        if p.ndim == 1 and p.requires_grad:
            p.data += 0.1 * torch.randn_like(p)
    model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    print(f"marian-made: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
    return folder, model.eval()


def made(qkv, paths, scratch):
    rng = random.Random(7)
    text = "".join(open(p, encoding="utf-8").read() for p in paths)
    for name, vocab, fields, conversions in MADE:
        folder, model = make(scratch, name, text, vocab, fields)
        model.save_pretrained(folder)
        check_logits(qkv, folder, model, rng)
        check_tokenizer(qkv, folder, rng, MarianTokenizer)
        for conversion in conversions:
            out = convert(qkv, folder, scratch, *conversion)
            check_logits(qkv, out, open_model(MarianMTModel, out, dtype=torch.float32), rng)
            check_same_config(MarianConfig, folder, out, {
                "init_std", "num_beams", "decoder_vocab_size", "num_hidden_layers",
                "bos_token_id"}) # which no translator uses
            check_tokenizer(qkv, out, rng, AutoTokenizer)
    old_file(qkv, scratch, text, rng)


def old_file(qkv, scratch, text, rng):
    """pytorch_model.bin as the hub holds it: every name of the shared table, the positions."""
    folder, model = make(scratch, "pytorch_model.bin", text, 700, SMALL)
    model.config.architectures = ["MarianMTModel"]
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), os.path.join(folder, "pytorch_model.bin"))
    converted, out = os.path.join(scratch, "from-bin"), os.path.join(scratch, "from-bin-2")
    for made_before in (converted, out):
        shutil.rmtree(made_before, ignore_errors=True)
    qkv.run("convert", os.path.join(folder, "pytorch_model.bin"), converted)
    qkv.run("convert", converted, out)
    check_logits(qkv, out, model, rng)
    opened = open_model(MarianMTModel, out)
    check_logits(qkv, converted, opened, rng)
    check("each table once", len([k for k in tensors_of(out) if "embed" in k or "shared" in k
                                  or "lm_head" in k]) == 1)
