"""tests/golden/sampling.safetensors: what transformers' generate() makes of random logits before
it draws a token: its own list of processors, in its order, then softmax, in double precision.
Run: python tools/make-golden/sampling.py

Case I has I.logits (V), I.past (n tokens), I.options (temperature, top_k, top_p, min_p,
repetition_penalty, no_repeat_ngram) and I.out (V)."""

import itertools
import random

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, GenerationConfig, LogitsProcessorList

V, PAST = 53, 40
torch.manual_seed(7)
rng = random.Random(7)
model = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=8, n_head=1, n_layer=1))
NONE = (1.0, 0, 1.0, 0.0, 1.0, 0)
ALONE = [(t, 0, 1.0, 0.0, 1.0, 0) for t in (0.3, 0.8, 1.7)]
ALONE += [(1.0, k, 1.0, 0.0, 1.0, 0) for k in (1, 2, 10, V - 1, V, 1000)]
ALONE += [(1.0, 0, p, 0.0, 1.0, 0) for p in (0.01, 0.3, 0.9, 0.999)]
ALONE += [(1.0, 0, 1.0, m, 1.0, 0) for m in (0.01, 0.2, 1.0)]
ALONE += [(1.0, 0, 1.0, 0.0, r, 0) for r in (0.7, 1.3, 5.0)]
ALONE += [(1.0, 0, 1.0, 0.0, 1.0, n) for n in (1, 2, 3, PAST, PAST + 1, PAST + 2)]
TOGETHER = list(itertools.product((0.6, 1.4), (0, 7, 20), (1.0, 0.8), (0.0, 0.1), (1.0, 1.2),
                                  (0, 2)))


def processed(logits, past, options):
    temperature, k, p, m, penalty, n = options
    config = GenerationConfig(do_sample=True, temperature=temperature, top_k=k, top_p=p,
                              min_p=m or None, repetition_penalty=penalty, no_repeat_ngram_size=n)
    processors = model._get_logits_processor(
        generation_config=config, input_ids_seq_length=len(past), encoder_input_ids=None,
        prefix_allowed_tokens_fn=None, logits_processor=LogitsProcessorList(), device="cpu",
        model_kwargs={})
    return processors(past[None], logits[None].double())[0].softmax(-1)


out = {}
for i, options in enumerate([NONE] + ALONE + rng.sample(TOGETHER, 40)):
    logits = (torch.randn(V) * 3).float()
    if options[1] and i % 2:
        logits = (logits * 2).round() / 2 + 0.25  # ties with the k-th: all are kept
        options = (*options[:2], 1.0, *options[3:])
    past = torch.randint(V // 4, (PAST if i % 5 else 3,))
    out[f"{i}.logits"], out[f"{i}.past"] = logits, past.int()
    out[f"{i}.options"] = torch.tensor(options, dtype=torch.float64)
    out[f"{i}.out"] = processed(logits, past, options).float()
save_file(out, "tests/golden/sampling.safetensors")
