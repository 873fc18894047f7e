"""t5.py - T5 of both kinds, with the tokenizer that transformers makes of a SentencePiece model."""
import io
import json
import os
import random

import sentencepiece
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration, T5Tokenizer

from . import marian
from .evaluate import (check, check_ids, check_same_config, convert, empty_folder, open_model,
                       varied, write)

SMALL = {"d_model": 48, "d_kv": 10, "d_ff": 80, "num_layers": 3, "num_decoder_layers": 2,
         "num_heads": 3, "relative_attention_num_buckets": 8,
         "relative_attention_max_distance": 12}
F32, BF16 = ("f32", 0, torch.float32), ("bf16", 1, torch.bfloat16)
# Name, tokens of the text's, sentences, configuration, (how it is converted ..)
MADE = [
    ("small", 700, 40, SMALL, [F32, ("f16", 0, torch.float16), BF16]),
    ("small, gated, a head of its own", 700, 40, SMALL | {
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, [F32]),
    ("small, gated-silu, other buckets", 700, 40, SMALL | {
        "feed_forward_proj": "gated-silu", "tie_word_embeddings": False, "d_kv": 32,
        "relative_attention_num_buckets": 5, "relative_attention_max_distance": 30}, [F32]),
    ("the size of t5-small", 1500, 4, {"vocab_size": 32128}, [F32]),
]
LONG = 300 # tokens: more than the 128 from which on positions share a bucket
MOST = 40 # tokens of an answer


def make_tokenizer(folder, text, vocab):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.splitlines()), model_writer=model, vocab_size=vocab,
        model_type="unigram", hard_vocab_limit=False, minloglevel=2, pad_id=0, eos_id=1, unk_id=2,
        bos_id=-1)
    path = os.path.join(folder, "spiece.model")
    with open(path, "wb") as f:
        f.write(model.getvalue())
    T5Tokenizer.from_pretrained(folder).save_pretrained(folder)
    os.remove(path)
    return AutoTokenizer.from_pretrained(folder)


def make(scratch, name, text, vocab, fields):
    """The vocabulary is larger than the tokenizer's, as the published ones' are."""
    torch.manual_seed(7)
    folder = empty_folder(scratch, "made")
    tokenizer = make_tokenizer(folder, text, vocab)
    config = T5Config(**{"vocab_size": len(tokenizer) + 28} | fields, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    if not config.scale_decoder_outputs:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(config.vocab_size, config.d_model))
    for key, p in model.named_parameters(): # norms and positions at their first values would hide
        if p.ndim == 1 or "relative" in key:
            p.data += 0.3 * torch.randn_like(p)
    model.lm_head.weight.data[len(tokenizer):] = 0 # never the likeliest
    model.generation_config.max_new_tokens = MOST
    print(f"t5-made: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
    model.save_pretrained(folder)
    return folder, model.eval(), tokenizer


def check_tokenizer(qkv, folder, tokenizer, rng):
    lines = varied(rng, 1000, ["<extra_id_0>", "<extra_id_99>", " <extra_id_7> ", "</s>", "<pad>",
                               "translate English to German: "])
    check_ids("ids", qkv.library.encode(folder, lines, 1),
              [tokenizer(line)["input_ids"] for line in lines], lines)


def check_long(qkv, folder, model, rng):
    source = [[rng.randrange(3, model.config.vocab_size) for _ in range(LONG)]]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(source),
                         decoder_input_ids=torch.tensor(source)).logits
    marian.check_close(f"logits of {LONG} tokens", marian.qkv_logits(
        qkv, folder, source, [LONG], source, model.config.vocab_size), expected)


def made(qkv, paths, scratch):
    rng = random.Random(7)
    text = "".join(open(p, encoding="utf-8").read() for p in paths)
    lines = [line.strip() for line in text.splitlines() if 20 < len(line.strip()) < 200]
    source = ["translate C to English: " + line for line in rng.sample(lines, 40)]
    for name, vocab, sentences, fields, conversions in MADE:
        folder, model, tokenizer = make(scratch, name, text, vocab, fields)
        check_tokenizer(qkv, folder, tokenizer, rng)
        marian.check_logits(qkv, folder, model, rng)
        check_long(qkv, folder, model, rng)
        marian.check_loss(qkv, folder, model, tokenizer, source[:sentences // 2],
                          lines[:sentences // 2])
        for beams in (1, 4):
            marian.check_translations(qkv, folder, model, tokenizer, source[:sentences], beams)
        for conversion in conversions:
            out = convert(qkv, folder, scratch, *conversion)
            marian.check_logits(qkv, out, open_model(T5ForConditionalGeneration, out,
                                                     dtype=torch.float32), rng)
            check_same_config(T5Config, folder, out, {"n_positions", "num_beams", "architectures"})
            check_tokenizer(qkv, out, AutoTokenizer.from_pretrained(out), rng)
    trained(qkv, scratch, rng, text)


def trained(qkv, scratch, rng, text):
    """A small one, fine-tuned here."""
    folder, _, _ = make(scratch, "small, to be fine-tuned", text, 700, SMALL)
    source, target, paths = marian.write_pairs(scratch, rng, 2000)
    out = os.path.join(scratch, "tuned")
    qkv.run("train", "translate", "--init", folder, "--source", paths[0], "--target", paths[1],
            "--out", out, "--steps", 200, "--tokens", 512, "--lr", 0.01)
    answers = os.path.join(out, "generation_config.json")
    with open(answers, encoding="utf-8") as f:
        fields = json.load(f)
    check("as long answers as texts", fields["max_length"] == 512)
    write(out, "generation_config.json", json.dumps(fields | {"max_length": MOST}))
    model = open_model(T5ForConditionalGeneration, out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    marian.check_logits(qkv, out, model, rng)
    marian.check_loss(qkv, out, model, tokenizer, source[:100], target[:100])
    for beams in (1, 4):
        marian.check_translations(qkv, out, model, tokenizer, source[:150], beams)
