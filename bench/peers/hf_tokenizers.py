"""Hugging Face's tokenizers."""
import os
import time

from peers import median_seconds, packages_missing

COMPILED = ()


def missing():
    return packages_missing("tokenizers")


def version():
    import tokenizers

    return tokenizers.__version__


def trained(sizes):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=257 + sizes["merges"], special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    start = time.perf_counter()
    tokenizer.train(list(sizes["text"]), trainer)
    return tokenizer, time.perf_counter() - start


def encode(sizes, run):
    """MB a second: all lines as one batch, on all threads."""
    del run
    tokenizer, _ = trained(sizes)
    lines = [line for name in sizes["text"] for line in open(name, encoding="utf-8")]
    size = sum(os.path.getsize(name) for name in sizes["text"])
    return size / median_seconds(lambda: tokenizer.encode_batch_fast(lines), 3, 0) / 1e6


def learn(sizes, run):
    """Learnings a second."""
    del run
    return 1 / trained(sizes)[1]


WORK = {"encode": encode, "learn": learn}
