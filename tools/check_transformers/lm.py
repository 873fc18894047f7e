"""lm.py - models that continue text: gpt2 (learned, sinusoid, no positions), llama and its kin."""
import os
import random
import shutil

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer, pre_tokenizers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel,
                          LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM)

from .evaluate import (END, TOLERANCE, check, check_close, check_ids, convert, empty_folder,
                    open_model, varied, write)


def check_logits(qkv, folder, model, ids):
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].float()
    got = qkv.library.logits(folder, ids, expected.shape[1])
    check_close(f"logits of {len(ids)} tokens", got, expected)


def check_tokenizer(qkv, folder, tokenizer, lines, scratch):
    path = write(scratch, "lines.txt", "\n".join(lines) + "\n")
    got = qkv.json("tokenize", folder, "--lines", "--file", path)["ids"]
    texts = [line.removesuffix("\r") for line in lines]  # CR LF is a line's end, no text
    check_ids("ids", got, [tokenizer(text, add_special_tokens=False)["input_ids"]
                           for text in texts], texts)
    expected = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in lines]
    check_ids("ids, each text alone", qkv.library.encode(folder, lines), expected, lines)
    whole = "\n".join(lines)
    check("ids of all in one", qkv.library.encode(folder, [whole])[0] ==
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


def check_loss(qkv, folder, model, ids, path):
    """In windows of as many tokens as the model has positions."""
    total, length = 0.0, model.config.max_position_embeddings
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


def evaluate(qkv, folder, lines, text, length, scratch, tokens=40):
    model = open_model(AutoModelForCausalLM, folder)
    # AutoTokenizer gives a qwen2 Qwen's own splitting of words, whatever its tokenizer.json says.
    own = model.config.model_type == "qwen2"
    opener = transformers.PreTrainedTokenizerFast if own else AutoTokenizer
    tokenizer = opener.from_pretrained(folder)
    check_tokenizer(qkv, folder, tokenizer, lines, scratch)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    check_logits(qkv, folder, model, ids[:length])
    check_greedy(qkv, folder, model, tokenizer, text[:20], tokens)
    check_greedy(qkv, folder, model, tokenizer, text[:20], tokens, 1.4, 2)
    check_loss(qkv, folder, model, ids, write(scratch, "text.txt", text))


# ---- trained here  ---------------------------------------------

TRAINED = [("gpt2", ["--positions", "learned"]), ("gpt2", ["--positions", "sinusoid"]),
           ("gpt2", ["--positions", "none"]), ("llama", []),
           ("llama", ["--set", "num_key_value_heads=1", "--set", "tie_word_embeddings=true",
                      "--set", "attention_bias=true"]),
           ("mistral", ["--set", "sliding_window=20", "--set", "rope_parameters.rope_type=yarn",
                        "--set", "rope_parameters.factor=2"]),
           ("phi3", ["--set", "sliding_window=24", "--set", "partial_rotary_factor=0.5"]),
           ("qwen2", ["--set", "use_sliding_window=true", "--set", "sliding_window=9",
                      "--set", "max_window_layers=1", "--set", "rope_parameters.rope_type=linear",
                      "--set", "rope_parameters.factor=3"]),
           ("qwen3", ["--set", "head_dim=24", "--set", "num_key_value_heads=1"])]


def shuffled(rng, text, count):
    """Lines that a character tokenizer of the text knows."""
    known = sorted(set(text) - {"\n"})
    return ["".join(rng.choices(known, k=rng.randint(0, 40))) for _ in range(count)]


def trained(qkv, paths, scratch):
    rng = random.Random(7)
    text = "".join(open(p, encoding="utf-8", newline="").read() for p in paths)
    data = write(scratch, "data.txt", text)
    for layout, more in TRAINED:
        for kind in ("char", "bpe"):
            print(f"lm-trained: {layout} {' '.join(more)} {kind}")
            folder = os.path.join(scratch, "trained")
            shutil.rmtree(folder, ignore_errors=True)
            qkv.run("train", "lm", "--data", data, "--out", folder, "--tokenizer", kind,
                    "--vocab", 600, "--layout", layout, "--model", "nano", "--length", 64,
                    "--steps", 30, "--batch", 8, *more)
            lines = shuffled(rng, text, 1000) if kind == "char" else varied(rng, 2000)
            evaluate(qkv, folder, lines, text[:3000], 64, scratch)


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


CONVERSIONS = [("f32", 0, torch.float32), ("f16", 0, torch.float16), ("bf16", 50, torch.bfloat16)]
MADE = [("GPT-2 124M", 50257, lambda n: GPT2LMHeadModel(GPT2Config(
            vocab_size=n, bos_token_id=n - 1, eos_token_id=n - 1))),
        ("Llama 110M", 32000, lambda n: LlamaForCausalLM(LlamaConfig(
            vocab_size=n, hidden_size=704, intermediate_size=1920, num_hidden_layers=12,
            num_attention_heads=11, num_key_value_heads=11, max_position_embeddings=1024,
            bos_token_id=n - 1, eos_token_id=n - 1))),
        ("SmolLM2 135M", 49152, lambda n: LlamaForCausalLM(LlamaConfig(
            vocab_size=n, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
            tie_word_embeddings=True, rope_parameters={"rope_type": "default",
                                                       "rope_theta": 100000.0},
            bos_token_id=n - 1, eos_token_id=n - 1))),
        ("Qwen3 600M", 151936, lambda n: Qwen3ForCausalLM(Qwen3Config(
            vocab_size=n, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
            num_attention_heads=16, num_key_value_heads=8, head_dim=128,
            max_position_embeddings=40960, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
            bos_token_id=n - 1, eos_token_id=n - 1)))]


def made(qkv, paths, scratch):
    rng = random.Random(7)
    torch.manual_seed(7)
    text = open(paths[0], encoding="utf-8", newline="").read()[:3000]
    for name, vocab, make in MADE:
        folder = empty_folder(scratch, "made")
        model = make(vocab)
        print(f"lm-made: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
        model.save_pretrained(folder)
        make_tokenizer(folder, vocab, rng)
        evaluate(qkv, folder, varied(rng, 500), text, 1024, scratch, 20)
        ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"][:64]
        for conversion in CONVERSIONS:
            out = convert(qkv, folder, scratch, *conversion)
            model = open_model(AutoModelForCausalLM, out, dtype=torch.float32)
            check_logits(qkv, out, model, ids)
