"""The rows of the table: what work each is, how qkv is asked for it, and which of the figures in
its answer counts. A row's work and sizes are all that a peer is told."""
from dataclasses import dataclass
from typing import Callable

STEPS, PASSES, TOKENS, SEARCHES = 5, 5, 64, 2  # timed in each process, after a warm-up
MERGES = 10000


@dataclass(frozen=True)
class Row:
    name: str  # as ROWS names it
    title: str
    unit: str
    work: str  # what a peer looks up in its WORK
    qkv: tuple  # arguments of `qkv bench`
    figures: Callable  # qkv's JSON -> its rate, its share of the limit (None: no limit is known)
    sizes: dict  # the work's numbers, for peers
    repeats: int = 0  # --steps, --repeats or --tokens; 0: there is no such option
    option: str = ""


def training(name, title, model, batch, length, dtypes=("f32", "bf16", "auto"), images=False,
             vocab=0):
    """auto: the default, what qkv finds to be the faster; no peer has it."""
    def figures(r):
        return (batch / r["step_s"] if images else r["tokens_per_s"]), r["of_peak"]

    for dtype in dtypes:
        yield Row(name + ("" if dtype == "f32" else f"-{dtype}"),
                  f"training step, {title}, {batch} x {length}, {dtype}",
                  "images/s" if images else "tokens/s", "train",
                  ("train", "--model", model, "--batch", batch, "--length", length, "--dtype",
                   dtype, *(("--vocab", vocab) if vocab else ())), figures,
                  {"model": model, "batch": batch, "length": length, "dtype": dtype}
                  | ({"vocab": vocab} if vocab else {}), STEPS, "--steps")


def adapting(targets, rank=8):
    """LoRA of GPT-2's matrices of these names; NAMES is how qkv is told."""
    def figures(r):
        return r["tokens_per_s"], r["of_peak"]

    return Row("lora-" + targets[0].replace("_", "-") + ("" if len(targets) == 1 else "-all"),
               f"LoRA step, GPT-2 124M, 4 x 256, rank {rank} of {', '.join(targets)}, f32",
               "tokens/s", "train",
               ("train", "--model", "gpt2", "--batch", 4, "--length", 256, "--dtype", "f32",
                "--lora", f"r={rank},targets={'+'.join(targets)}"), figures,
               {"model": "gpt2", "batch": 4, "length": 256, "dtype": "f32", "rank": rank,
                "targets": targets}, STEPS, "--steps")


def attention(length, both, dtype="f32"):
    def figures(r):
        rate = r["gflops" if both else "forward_gflops"]
        return rate, rate / r["peak_gflops"]

    return Row(f"attention-{length}" + ("" if both else "-forward") +
               ("" if dtype == "f32" else f"-{dtype}"),
               f"causal attention, 12 x 64, T {length}, {'both ways' if both else 'forward'}, "
               f"{dtype}", "GFLOP/s", "attention",
               ("attention", "--length", length, "--dtype", dtype), figures,
               {"length": length, "heads": 12, "width": 64, "both": both, "dtype": dtype}, PASSES,
               "--repeats")


def decoding(weights, batch=1, name="decode", kv="f32"):
    def one(r):
        return r["tokens_per_s"], r["of_bandwidth"]

    def together(r):
        return r["batch_tokens_per_s"], r["batch_of_bandwidth"]

    return Row(f"{name}-{weights}" + (f"-{batch}" if batch > 1 else ""),
               f"generating, GPT-2 124M, {'one text' if batch == 1 else f'{batch} texts'}, "
               f"{weights}", "tokens/s", "decode",
               ("decode", "--prompt", 16, "--weights", weights, "--batch", batch, "--kv", kv),
               one if batch == 1 else together, {"prompt": 16, "weights": weights, "batch": batch},
               TOKENS, "--tokens")


def prompt(weights, length=1024):
    return Row(f"prompt-{weights}", f"prompt of {length}, GPT-2 124M, {weights}", "tokens/s",
               "prompt", ("prompt", "--length", length, "--weights", weights),
               lambda r: (r["tokens_per_s"], r["of_peak"]),
               {"length": length, "weights": weights}, SEARCHES, "--repeats")


def translation(weights):
    return Row(f"translate-{weights}", f"translating 64 x 25, beam 4, 6 + 6 x 512, {weights}",
               "tokens/s", "translate",
               ("translate", "--sentences", 64, "--length", 25, "--tokens", 25, "--beam", 4,
                "--weights", weights), lambda r: (r["tokens_per_s"], r["of_peak"]),
               {"sentences": 64, "length": 25, "beam": 4, "weights": weights}, SEARCHES,
               "--repeats")


def inference(model, title, unit, batch):
    return Row(f"{model}-{batch}", f"inference, {title}, batch {batch}, f32", unit, "infer",
               ("forward", "--model", model, "--batch", batch),
               lambda r: (r["samples_per_s"], r["of_peak"]), {"model": model, "batch": batch},
               PASSES, "--repeats")


def tokenizing(text):
    files = tuple(word for name in text for word in ("--file", name))
    command, sizes = ("tokenize", "--merges", MERGES, *files), {"merges": MERGES, "text": text}
    yield Row("encode", "byte pairs, encoding", "MB/s", "encode", command,
              lambda r: (r["encode_mb_per_s"], None), sizes)
    yield Row("learn", f"byte pairs, learning {MERGES}", "1/s", "learn", command,
              lambda r: (1 / r["train_s"], None), sizes)


def card_rows():
    """Those that fill a card. 50,304 tokens are GPT-2's, made a multiple of 128."""
    gpt2 = ("GPT-2 124M, 50304 tokens", "gpt2")
    return [
        *training("card-gpt2-64", *gpt2, 64, 1024, ("bf16",), vocab=50304),
        *training("card-gpt2-16", *gpt2, 16, 1024, ("bf16",), vocab=50304),
        *training("card-vit", "ViT-B/16", "vit-base", 256, 224, ("bf16",), True),
        *training("card-transformer", "base transformer, pairs", "transformer-base", 512, 32,
                  ("bf16",)),
        *training("card-vqgan", "VQGAN f16, generator's phase", "vqgan-f16", 8, 256, ("bf16",),
                  True),
        decoding("f32", 1, "card-decode"), decoding("f32", 64, "card-decode"),
        decoding("bf16", 1, "card-decode"), decoding("bf16", 64, "card-decode", "bf16"),
    ]


def rows(text, device="cpu"):
    """All of them; those about tokenisers if there are files of text, a card's on a card."""
    return [
        *(card_rows() if device != "cpu" else ()),
        *training("gpt2", "GPT-2 124M", "gpt2", 4, 256),
        *training("gpt2-long", "GPT-2 124M", "gpt2", 1, 1024),
        *training("gpt2-short", "GPT-2 124M", "gpt2", 4, 64, ("f32",)),
        adapting(("c_attn",)), adapting(("c_attn", "c_proj", "c_fc")),
        *training("bert", "BERT-base", "bert-base", 8, 128),
        *training("transformer", "base transformer, pairs", "transformer-base", 128, 32),
        *training("vit", "ViT-B/16", "vit-base", 8, 224, images=True),
        *training("mae", "MAE-base", "mae-base", 8, 224, images=True),
        *training("cct", "CCT-7/3x2", "cct-7", 128, 32, images=True),
        *training("vqgan", "VQGAN f16, generator's phase", "vqgan-f16", 1, 256, images=True),
        *(attention(length, both) for length in (1024, 2048, 8192, 32768)
          for both in (False, True)),
        attention(2048, True, "bf16"), attention(8192, True, "bf16"),
        *(decoding(weights) for weights in ("f32", "bf16", "int8", "int4")),
        decoding("int8", 8),
        *(prompt(weights) for weights in ("f32", "bf16", "int8", "int4")),
        *(translation(weights) for weights in ("f32", "int8")),
        *(inference("vit-base", "ViT-B/16", "images/s", batch) for batch in (1, 32)),
        *(inference("bert-base", "BERT-base, 128 tokens", "texts/s", batch) for batch in (1, 32)),
        *(inference("cct-7", "CCT-7/3x2, 32 x 32", "images/s", batch) for batch in (1, 128)),
        Row("image", "decoding 256 x 256, VQGAN f16, f32", "images/s", "image", ("image",),
            lambda r: (1 / r["image_s"], r["of_peak"]), {}, SEARCHES, "--repeats"),
        *(tokenizing(text) if text else ()),
    ]
