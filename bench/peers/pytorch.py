"""PyTorch with transformers: eager and compiled, in f32 and with autocast to bf16. Attention is
scaled_dot_product_attention throughout. Products in f32 are true ones on a card too, where the
fastest convolutions are searched."""
import contextlib
import gc
import random
import time

import peers
from peers import packages_missing

COMPILED = ("train", "infer", "decode")
DEVICES = ("cpu", "cuda")
MASKED = 0.15
SPARE_TOKENS = 64  # of a cache of fixed shape: warming up, and tries until there is memory
SPARE = 4e9  # bytes of a card that are left to others while one waits for its turn


def missing():
    return packages_missing("torch", "transformers")


def version():
    import torch
    import transformers

    return f"{torch.__version__}, transformers {transformers.__version__}"


def load():
    import torch._inductor.compile_fx  # noqa: F401
    from peers import pytorch_models  # noqa: F401


def can(row):
    return all(row.sizes.get(of, "f32") in ("f32", "bf16") for of in ("weights", "dtype"))


def seeded(run):
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(run.threads)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def on_card(run):
    return run.device != "cpu"


def number(run):
    """The card's: some functions want it."""
    import torch

    return torch.device(run.device).index or 0


def memory(run):
    import torch

    return torch.cuda.max_memory_reserved(number(run)) if on_card(run) else None


def ready(torch, run, work):
    """Compiles, and waits for its turn. Others use the card: when its memory is full this tries
    again, and convolutions are searched afterwards."""
    torch.backends.cudnn.benchmark = False
    while True:
        free, all_ = torch.cuda.mem_get_info(number(run))
        most = torch.cuda.memory_reserved(run.device) + max(free - SPARE, 0)
        torch.cuda.set_per_process_memory_fraction(min(most / all_, 1), number(run))
        try:
            work()
            torch.cuda.synchronize(run.device)
            break
        except RuntimeError as why:
            if not any(words in str(why) for words in ("out of memory", "ALLOC_FAILED")):
                raise
        gc.collect()
        torch.cuda.empty_cache()
        time.sleep(1 + 2 * random.random())
    gc.collect()
    torch.cuda.empty_cache()
    run.wait()
    torch.backends.cudnn.benchmark = True
    torch.cuda.set_per_process_memory_fraction(1.0, number(run))
    torch.cuda.reset_peak_memory_stats(number(run))


def median_seconds(run, work, warm_ups=2):
    import torch

    sync = (lambda: torch.cuda.synchronize(run.device)) if on_card(run) else None
    if run.wait:
        ready(torch, run, work)
    return peers.median_seconds(work, run.repeats, warm_ups, sync)


# ---- training ------------------------------------------------------------------------------------


def gpt2_loss(torch, models, batch, length, vocab=50257):
    model = models.gpt2(length, vocab).train()
    ids = torch.randint(model.config.vocab_size, (batch, length + 1))

    def loss():
        logits = model(ids[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return model, loss


def bert_loss(torch, models, batch, length):
    """With dropout 0.1, and the head at the masked rows alone."""
    model = models.bert(0.1).train()
    tokens = batch * length
    masked = int(tokens * MASKED)
    ids = torch.randint(model.config.vocab_size, (batch, length))
    rows = torch.arange(masked) * tokens // masked
    targets = torch.randint(model.config.vocab_size, (masked,))

    def loss():
        hidden = model.bert(ids).last_hidden_state.flatten(0, 1)
        return torch.nn.functional.cross_entropy(model.cls(hidden[rows]), targets)

    return model, loss


def transformer_loss(torch, models, batch, length):
    """With dropout 0.1 and label smoothing 0.1."""
    model = models.base_transformer().train()
    vocab = model.config.vocab_size
    source = torch.randint(vocab - 1, (batch, length))
    target = torch.randint(vocab - 1, (batch, length + 1))

    def loss():
        logits = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(),
                                                 label_smoothing=0.1)

    return model, loss


def classifier_loss(make, classes):
    def made(torch, models, batch, length):
        model = getattr(models, make)().train()
        pixels = torch.rand(batch, 3, length, length) * 2 - 1
        targets = torch.randint(classes, (batch,))
        return model, lambda: torch.nn.functional.cross_entropy(model(pixels), targets)

    return made


def mae_loss(torch, models, batch, length):
    model = models.mae().train()
    pixels = torch.rand(batch, 3, length, length) * 2 - 1
    return model, lambda: model(pixels).loss


def vqgan_loss(torch, models, batch, length):
    del length
    model = models.Generator()
    pixels = torch.randint(256, (batch, 3, model.side, model.side)) / 127.5 - 1
    return model, lambda: model(pixels)


LOSSES = {"gpt2": gpt2_loss, "bert-base": bert_loss, "transformer-base": transformer_loss,
          "vit-base": classifier_loss("vit", 1000), "cct-7": classifier_loss("Compact", 10),
          "mae-base": mae_loss, "vqgan-f16": vqgan_loss}


def adapt(model, rank, targets):
    """PEFT's adapter, put into the model itself."""
    from peft import LoraConfig, inject_adapter_in_model

    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=16, target_modules=list(targets),
                                       fan_in_fan_out=True), model)


def train(sizes, run):
    """Texts: tokens a second. Images: images a second. A step: forward, backward, clipping,
    AdamW."""
    torch = seeded(run)
    from peers import pytorch_models as models

    batch, length = sizes["batch"], sizes["length"]
    more = {key: sizes[key] for key in ("vocab",) if key in sizes}
    with torch.device(run.device):
        model, loss = LOSSES[sizes["model"]](torch, models, batch, length, **more)
        if "rank" in sizes:
            adapt(model, sizes["rank"], sizes["targets"])
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if run.compile and on_card(run):
        torch._inductor.async_compile.AsyncCompile.wakeup()  # it starts while the model is traced
    if run.compile and hasattr(model, "compile_parts"):
        model.compile_parts()
    elif run.compile:
        loss = torch.compile(loss)
    half, kind = sizes["dtype"] == "bf16", run.device.split(":")[0]

    def step():
        with torch.autocast(kind, torch.bfloat16) if half else contextlib.nullcontext():
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = median_seconds(run, step)
    per_sample = {"gpt2": length, "bert-base": length, "transformer-base": 2 * length}
    return batch * per_sample.get(sizes["model"], 1) / seconds


# ---- inference -----------------------------------------------------------------------------------


def attention(sizes, run):
    """GFLOP a second; causal work counts as half, the backward pass as 2.5 of the forward."""
    torch = seeded(run)
    shape = (1, sizes["heads"], sizes["length"], sizes["width"])
    dtype = torch.bfloat16 if sizes["dtype"] == "bf16" else torch.float32
    q, k, v = (torch.randn(shape, dtype=dtype, device=run.device, requires_grad=sizes["both"])
               for _ in range(3))
    dy = torch.randn(shape, dtype=dtype, device=run.device)

    def work():
        attend = torch.nn.functional.scaled_dot_product_attention
        y = attend(q, k, v, is_causal=True)
        if sizes["both"]:
            torch.autograd.grad(y, (q, k, v), dy)

    once = 2 * sizes["length"]**2 * sizes["heads"] * sizes["width"]
    return once * (3.5 if sizes["both"] else 1) / median_seconds(run, work) / 1e9


def stored(torch, model, weights):
    return model.eval().to(torch.bfloat16 if weights == "bf16" else torch.float32)


def decode(sizes, run):
    """Tokens a second, greedily, with keys and values kept."""
    torch = seeded(run)
    from peers import pytorch_models as models

    with torch.device(run.device):
        model = stored(torch, models.gpt2(), sizes["weights"])
        ids = torch.randint(model.config.vocab_size, (sizes["batch"], sizes["prompt"]))
    if run.compile:
        return decode_compiled(torch, model, ids, run)
    state = {"ids": ids, "cache": None}

    def token():
        out = model(state["ids"], past_key_values=state["cache"], use_cache=True,
                    logits_to_keep=1)
        state["cache"] = out.past_key_values
        state["ids"] = out.logits[:, -1].argmax(-1, keepdim=True)

    with torch.inference_mode():
        return sizes["batch"] / median_seconds(run, token)


def decode_compiled(torch, model, ids, run):
    """The same with a cache of fixed shape and, on a card, a token's kernels as one graph."""
    from transformers import StaticCache

    batch, length = ids.shape
    cache = StaticCache(config=model.config, max_cache_len=length + SPARE_TOKENS + run.repeats)
    with torch.inference_mode():
        model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    place = torch.full((batch, 1), length, device=run.device)
    last = ids[:, -1:].clone()

    def forward(last, place):
        return model(last, position_ids=place, past_key_values=cache, use_cache=True,
                     logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)

    compiled = torch.compile(forward, mode="reduce-overhead", fullgraph=True)

    def token():
        torch.compiler.cudagraph_mark_step_begin()
        last.copy_(compiled(last, place))
        place.add_(1)

    with torch.inference_mode():
        return batch / median_seconds(run, token, 4)


def prompt(sizes, run):
    torch = seeded(run)
    from peers import pytorch_models as models

    with torch.device(run.device):
        model = stored(torch, models.gpt2(), sizes["weights"])
        ids = torch.randint(model.config.vocab_size, (1, sizes["length"]))
    with torch.inference_mode():
        seconds = median_seconds(run, lambda: model(ids, use_cache=True, logits_to_keep=1), 1)
    return sizes["length"] / seconds


def translate(sizes, run):
    """Tokens a second of the best translations; none ends early."""
    torch = seeded(run)
    from peers import pytorch_models as models

    length, count = sizes["length"], sizes["sentences"]
    with torch.device(run.device):
        model = stored(torch, models.base_transformer(), sizes["weights"])
        source = torch.randint(1, model.config.vocab_size - 1, (count, length))

    def search():
        out = model.generate(source, num_beams=sizes["beam"], min_new_tokens=length,
                             max_new_tokens=length, do_sample=False)
        assert out.shape == (count, length + 1)

    with torch.inference_mode():
        return count * length / median_seconds(run, search, 1)


def infer(sizes, run):
    """Inputs a second."""
    torch = seeded(run)
    from peers import pytorch_models as models

    with torch.device(run.device):
        model, inputs = models.inference(sizes["model"], sizes["batch"])
    if run.compile:
        model = torch.compile(model)
    with torch.inference_mode():
        return sizes["batch"] / median_seconds(run, lambda: model(inputs))


def image(sizes, run):
    """Images of 256 x 256 a second, from codes."""
    del sizes
    torch = seeded(run)
    from peers import pytorch_models as models

    with torch.device(run.device):
        model = models.codes_network()
        codes = torch.randint(models.CODES, (1, models.GRID, models.GRID))
    with torch.inference_mode():
        return 1 / median_seconds(run, lambda: models.decoded(model, codes), 1)


WORK = {"train": train, "attention": attention, "decode": decode, "prompt": prompt,
        "translate": translate, "infer": infer, "image": image}
