#!/usr/bin/env python3
"""Times qkv and PyTorch (and Hugging Face's tokenizers) on the same work, turn by turn in one run,
and prints one table: each one's best rate, their ratio, and this machine's limit where qkv
measures one.

    bench/peers.py --qkv build/qkv --text FILE... [--rounds 3] [--only train,decode] [--compile]

Needs torch, transformers and tokenizers; qkv itself needs none of them. Each measure runs in a
process of its own, so that nothing is left spinning or cached when the other one's turn comes.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BATCH, LENGTH, STEPS = 4, 256, 5  # training GPT-2
BERT_BATCH, BERT_LENGTH, MASKED = 8, 128, 0.15
PAIRS, SENTENCE, PAIRS_VOCAB = 128, 32, 32001
HEADS, WIDTH, ATTENDED, PASSES = 12, 64, 2048, 10  # attention
PROMPT, TOKENS = 16, 64  # generating
TRANSLATED, WORDS, BEAMS, SEARCHES = 64, 25, 4, 2  # translating
MERGES = 10000


def median_seconds(work, count, warm_ups=2):
    seconds = []
    for _ in range(warm_ups + count):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[warm_ups:])


def gpt2():
    """GPT-2 of 124M parameters, random, without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config)


def step_seconds(options, model, loss):
    """Median seconds of a training step: forward, backward, clipping and AdamW."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if options.compile:
        loss = torch.compile(loss)

    def step():
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return median_seconds(step, STEPS)


def torch_train(options):
    """Tokens a second of GPT-2."""
    import torch

    model = gpt2().train()
    ids = torch.randint(model.config.vocab_size, (BATCH, LENGTH + 1))

    def loss():
        logits = model(ids[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return BATCH * LENGTH / step_seconds(options, model, loss)


def torch_bert(options):
    """Tokens a second of BERT-base, dropout 0.1, with the head at the masked rows alone."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig()
    config._attn_implementation = "sdpa"
    model = BertForMaskedLM(config).train()
    tokens = BERT_BATCH * BERT_LENGTH
    masked = int(tokens * MASKED)
    ids = torch.randint(config.vocab_size, (BERT_BATCH, BERT_LENGTH))
    rows = torch.arange(masked) * tokens // masked
    targets = torch.randint(config.vocab_size, (masked,))

    def loss():
        hidden = model.bert(ids).last_hidden_state.flatten(0, 1)
        return torch.nn.functional.cross_entropy(model.cls(hidden[rows]), targets)

    return tokens / step_seconds(options, model, loss)


def base_transformer():
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=PAIRS_VOCAB, pad_token_id=PAIRS_VOCAB - 1, max_position_embeddings=512,
        decoder_start_token_id=PAIRS_VOCAB - 1, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, encoder_layerdrop=0.0, decoder_layerdrop=0.0, dropout=0.1,
        activation_function="relu", scale_embedding=True)
    config._attn_implementation = "sdpa"
    return MarianMTModel(config)


def torch_transformer(options):
    """Tokens a second, both sides, of the base transformer, dropout 0.1, smoothing 0.1."""
    import torch

    model = base_transformer().train()
    source = torch.randint(PAIRS_VOCAB - 1, (PAIRS, SENTENCE))
    target = torch.randint(PAIRS_VOCAB - 1, (PAIRS, SENTENCE + 1))

    def loss():
        logits = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(),
                                                 label_smoothing=0.1)

    return 2 * PAIRS * SENTENCE / step_seconds(options, model, loss)


def transformers_translate(options):
    """Tokens a second of the best translations: beam search, none of which ends early."""
    import torch

    model = base_transformer().eval()
    source = torch.randint(1, PAIRS_VOCAB - 1, (TRANSLATED, WORDS))

    def search():
        out = model.generate(source, num_beams=BEAMS, min_new_tokens=WORDS, max_new_tokens=WORDS,
                             do_sample=False)
        assert out.shape == (TRANSLATED, WORDS + 1)

    with torch.inference_mode():
        return TRANSLATED * WORDS / median_seconds(search, SEARCHES, 1)


def torch_attention(options):
    """GFLOP a second, forward and backward; causal work counts as half."""
    import torch

    shape = (1, HEADS, ATTENDED, WIDTH)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    dy = torch.randn(shape)

    def both():
        attend = torch.nn.functional.scaled_dot_product_attention
        torch.autograd.grad(attend(q, k, v, is_causal=True), (q, k, v), dy)

    flops = 3.5 * 2 * ATTENDED**2 * HEADS * WIDTH
    return flops / median_seconds(both, PASSES) / 1e9


def torch_decode(options):
    """Tokens a second, one text, greedily, with keys and values kept."""
    import torch

    model = gpt2().eval()
    ids = torch.randint(model.config.vocab_size, (1, PROMPT))
    with torch.inference_mode():
        state = {"cache": None, "ids": ids}

        def token():
            out = model(state["ids"], past_key_values=state["cache"], use_cache=True,
                        logits_to_keep=1)
            state["cache"] = out.past_key_values
            state["ids"] = out.logits[:, -1].argmax(-1, keepdim=True)

        return 1 / median_seconds(token, TOKENS)


def trained_tokenizer(options):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=257 + MERGES, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    start = time.perf_counter()
    tokenizer.train(options.text, trainer)
    return tokenizer, time.perf_counter() - start


def tokenizers_encode(options):
    """MB a second: all lines as one batch, on all threads."""
    tokenizer, _ = trained_tokenizer(options)
    lines = [line for name in options.text for line in open(name, encoding="utf-8")]
    size = sum(os.path.getsize(name) for name in options.text)
    return size / median_seconds(lambda: tokenizer.encode_batch_fast(lines), 3, 0) / 1e6


def tokenizers_learn(options):
    """Learnings a second."""
    return 1 / trained_tokenizer(options)[1]


# name: what the table calls it, unit, the peer's measure, qkv's arguments, its rate and limit
def measures(options):
    text = [word for name in options.text for word in ("--file", name)]
    return {
        "train": (
            f"training step, GPT-2 124M, {BATCH} x {LENGTH}, f32", "tokens/s", torch_train,
            ["train", "--batch", BATCH, "--length", LENGTH, "--steps", STEPS],
            lambda r: (r["tokens_per_s"], r["tokens_per_s"] / r["of_peak"])),
        "bert": (
            f"training step, BERT-base, {BERT_BATCH} x {BERT_LENGTH}, f32", "tokens/s", torch_bert,
            ["train", "--model", "bert-base", "--batch", BERT_BATCH, "--length", BERT_LENGTH,
             "--steps", STEPS],
            lambda r: (r["tokens_per_s"], r["tokens_per_s"] / r["of_peak"])),
        "transformer": (
            f"training step, base transformer, {PAIRS} x {SENTENCE}", "tokens/s",
            torch_transformer,
            ["train", "--model", "transformer-base", "--batch", PAIRS, "--length", SENTENCE,
             "--steps", STEPS],
            lambda r: (r["tokens_per_s"], r["tokens_per_s"] / r["of_peak"])),
        "translate": (
            f"translating {TRANSLATED} x {WORDS}, beam {BEAMS}, base transformer", "tokens/s",
            transformers_translate,
            ["translate", "--sentences", TRANSLATED, "--length", WORDS, "--tokens", WORDS,
             "--beam", BEAMS, "--repeats", SEARCHES],
            lambda r: (r["tokens_per_s"], r["tokens_per_s"] / r["of_peak"])),
        "attention": (
            f"causal attention, {HEADS} x {WIDTH}, T {ATTENDED}, both ways", "GFLOP/s",
            torch_attention, ["attention", "--length", ATTENDED, "--repeats", PASSES],
            lambda r: (r["gflops"], r["peak_gflops"])),
        "decode": (
            "generating, GPT-2 124M, one text, f32", "tokens/s", torch_decode,
            ["decode", "--prompt", PROMPT, "--tokens", TOKENS],
            lambda r: (r["tokens_per_s"], r["tokens_per_s"] / r["of_bandwidth"])),
        "encode": (
            "byte pairs, encoding", "MB/s", tokenizers_encode,
            ["tokenize", "--merges", MERGES, *text], lambda r: (r["encode_mb_per_s"], None)),
        "learn": (
            f"byte pairs, learning {MERGES}", "1/s", tokenizers_learn,
            ["tokenize", "--merges", MERGES, *text], lambda r: (1 / r["train_s"], None)),
    }


def run(command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"peers.py: failed: {' '.join(map(str, command))}")
    return json.loads(result.stdout.splitlines()[-1])


def compare(name, options, arguments):
    """The best rates of qkv and of the peer, and the highest limit that qkv saw."""
    _, _, _, command, rates = measures(options)[name]
    ours, theirs, limits = [], [], []
    for _ in range(options.rounds):
        answer = run([options.qkv, "bench", *command, "--json", "--threads", options.threads])
        rate, limit = rates(answer)
        ours.append(rate)
        limits.append(limit or 0)
        theirs.append(run([sys.executable, __file__, *arguments, "--peer", name]))
    return max(ours), max(theirs), max(limits)


def peer(name, options):
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    if name not in ("encode", "learn"):
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(options.threads)
    print(json.dumps(measures(options)[name][2](options)))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qkv", default="build/qkv", help="the command")
    parser.add_argument("--text", nargs="*", default=[], help="UTF-8 files for the tokenisers")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each; the best counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="names, with commas: train,decode")
    parser.add_argument("--compile", action="store_true", help="torch.compile for training")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    if options.peer:
        return peer(options.peer, options)
    table = measures(options)
    names = [name for name in options.only.split(",") if name] or list(table)
    unknown = [name for name in names if name not in table]
    if unknown:
        sys.exit(f"peers.py: no measure {unknown[0]}: there are {', '.join(table)}")
    print(f"{'':46} {'qkv':>9} {'peer':>9} {'ratio':>6} {'limit':>9} {'share':>7}")
    for name in names:
        if name in ("encode", "learn") and not options.text:
            continue
        ours, theirs, limit = compare(name, options, sys.argv[1:])
        share = f"{limit:9.1f} {100 * ours / limit:5.1f} %" if limit else " " * 17
        print(f"{table[name][0]:46} {ours:9.1f} {theirs:9.1f} {ours / theirs:6.2f} {share}  "
              f"{table[name][1]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
