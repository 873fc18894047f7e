#!/usr/bin/env python3
"""Compares `qkv look` with TransformerLens on one GPT-2 directory: the logit lens and the grid of
activation patching agree to 1e-4; the grid's times, turn by turn on the same threads. By hand:

    bench/lens.py [--qkv build/qkv] [--model DIR] [--tokens 24] [--rounds 3] [--threads 2]

Needs torch, transformers 4 and transformer_lens 2 (version 3 and later have no HookedTransformer).
Without --model a GPT-2 of 124M random parameters is made. qkv's time is the whole command's, with
opening the directory; TransformerLens's the grid's alone, its model being in memory. Exits 1 when
numbers differ.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is local
os.environ["TQDM_DISABLE"] = "1"

import torch
import transformers
from transformer_lens import HookedTransformer, HookedTransformerConfig, patching
from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights

WORDS = "When Mary and John went to the shop at the corner John gave a drink of milk to "
AGREE = 1e-4


def make(folder):
    """GPT-2 of 124M random parameters, with a tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.manual_seed(1)
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def lens_model(folder):
    """The directory's model as TransformerLens has it, its weights as they are."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    c = model.config
    hooked = HookedTransformer(HookedTransformerConfig(
        n_layers=c.n_layer, d_model=c.n_embd, n_ctx=c.n_positions, d_head=c.n_embd // c.n_head,
        n_heads=c.n_head, d_mlp=c.n_inner or 4 * c.n_embd, d_vocab=c.vocab_size,
        act_fn="gelu_new", eps=c.layer_norm_epsilon, normalization_type="LN", device="cpu",
        original_architecture="GPT2LMHeadModel"))
    hooked.load_and_process_state_dict(
        convert_gpt2_weights(model, hooked.cfg), fold_ln=False, center_writing_weights=False,
        center_unembed=False, fold_value_biases=False)
    return hooked.eval()


def qkv_json(options, *words):
    """The command's answer, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run([options.qkv, "look", *words, "--json", "--quiet", "--threads",
                           str(options.threads)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout), time.perf_counter() - start


def worst_lens(options, folder, text, hooked, ids):
    """The largest difference of log-probabilities of the likeliest tokens at all layers."""
    answer, _ = qkv_json(options, folder, text, "--top", "8")
    _, cache = hooked.run_with_cache(ids)
    layers = [cache["resid_pre", i] for i in range(hooked.cfg.n_layers)]
    layers.append(cache["resid_post", hooked.cfg.n_layers - 1])
    worst = 0.0
    for stream, guesses in zip(layers, answer["lens"] + [answer["predictions"]]):
        logs = torch.log_softmax(hooked.unembed(hooked.ln_final(stream)), -1)[0]
        for position, at in enumerate(guesses):
            for guess in at:
                worst = max(worst, abs(math.log(guess["p"]) - logs[position, guess["id"]].item()))
    return worst


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--qkv", default=os.path.join(root, "build/qkv"))
    parser.add_argument("--model", help="a GPT-2 directory")
    parser.add_argument("--tokens", type=int, default=24, help="of both texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as made:
        folder = options.model or made
        if not options.model:
            make(made)
        hooked = lens_model(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(WORDS * 40, return_tensors="pt")["input_ids"][:, :options.tokens]
        clean = tokenizer.decode(ids[0])
        wrong = ids.clone()
        wrong[0, 5] = tokenizer(" Z")["input_ids"][-1]
        corrupt = tokenizer.decode(wrong[0])
        if not torch.equal(tokenizer(corrupt, return_tensors="pt")["input_ids"], wrong):
            sys.exit("the corrupt text has other tokens when it is read again")
        answer, other = (hooked(ids)[0, -1].topk(2).indices[i].item() for i in (0, 1))
        names = [tokenizer.decode([i]) for i in (answer, other)]
        if [tokenizer(n)["input_ids"][:1] for n in names] != [[answer], [other]]:
            answer, other = tokenizer("a")["input_ids"][0], tokenizer("b")["input_ids"][0]
            names = ["a", "b"]
        _, cache = hooked.run_with_cache(ids)
        measure = lambda logits: logits[0, -1, answer] - logits[0, -1, other]
        ours, theirs, seconds = None, None, [math.inf, math.inf]
        for _ in range(options.rounds):
            ours, took = qkv_json(options, folder, clean, "--patch", corrupt, "--answer",
                                  names[0], "--other", names[1])
            seconds[0] = min(seconds[0], took)
            start = time.perf_counter()
            theirs = patching.get_act_patch_resid_pre(hooked, wrong, cache, measure)
            seconds[1] = min(seconds[1], time.perf_counter() - start)
        grid = torch.tensor(ours["grids"][0]["values"])
        worst = (grid - theirs).abs().max().item()
        lens = worst_lens(options, folder, clean, hooked, ids)
    print(f"{ids.shape[1]} tokens, {hooked.cfg.n_layers} layers, {options.threads} threads")
    print(f"logit lens: largest difference of a log-probability {lens:.1e}")
    print(f"patching, resid_pre: largest difference {worst:.1e} of values in "
          f"{theirs.min():.4f} .. {theirs.max():.4f}")
    print(f"patching: qkv {seconds[0]:.2f} s, TransformerLens {seconds[1]:.2f} s, "
          f"ratio {seconds[1] / seconds[0]:.1f}")
    return worst > AGREE or lens > AGREE


if __name__ == "__main__":
    sys.exit(main())
