"""tests/golden/models: tiny random models as transformers saves them, and what it makes of them.
Run: python tools/make-golden/models.py

NAME/               config.json and model.safetensors (F32) by save_pretrained
NAME.safetensors    ids (B, T), targets (B, T; -100: ignored), logits, loss, and grad.TENSOR, the
                    gradient of every tensor of the model; computed in double precision
                    BERT: segments (B, T) too, and labels (B) in place of targets for classes
                    encoder-decoders: source (B, S) too; ids are the decoder's

What could be wired wrongly has a value that is not the default. The tied Llama's config.json is
rewritten as transformers 4 has it."""

import json
import os
from unittest import mock

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MarianConfig,
                          MarianMTModel)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = "tests/golden/models"
B, T, S, V = 2, 17, 13, 61

GPT2 = dict(vocab_size=V, n_positions=24, n_embd=24, n_layer=2, n_head=3, n_inner=40,
            layer_norm_epsilon=0.01, initializer_range=0.1, resid_pdrop=0.05, embd_pdrop=0.15,
            attn_pdrop=0.25, bos_token_id=3, eos_token_id=5)
LLAMA = dict(vocab_size=V, max_position_embeddings=24, hidden_size=24, num_hidden_layers=2,
             intermediate_size=40, rms_norm_eps=0.01, initializer_range=0.1, bos_token_id=3,
             eos_token_id=5)
BERT = dict(vocab_size=V, max_position_embeddings=24, type_vocab_size=3, hidden_size=24,
            num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
            layer_norm_eps=0.01, hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.15,
            pad_token_id=7)
MARIAN = dict(vocab_size=V, max_position_embeddings=24, d_model=24, encoder_layers=2,
              decoder_layers=1, encoder_attention_heads=3, decoder_attention_heads=2,
              encoder_ffn_dim=40, decoder_ffn_dim=28, activation_function="swish", dropout=0.05,
              attention_dropout=0.15, activation_dropout=0.25, pad_token_id=7, eos_token_id=5,
              decoder_start_token_id=7)
THETA = 50.0

MODELS = {
    "gpt2": GPT2LMHeadModel(GPT2Config(**GPT2)),
    "gpt2-untied": GPT2LMHeadModel(GPT2Config(
        **GPT2, tie_word_embeddings=False, scale_attn_weights=False,
        scale_attn_by_inverse_layer_idx=True, activation_function="relu", pad_token_id=7)),
    "llama": LlamaForCausalLM(LlamaConfig(
        **LLAMA, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": THETA}, pad_token_id=7)),
    "llama-tied": LlamaForCausalLM(LlamaConfig(
        **LLAMA, num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=True,
        attention_bias=True, mlp_bias=True, hidden_act="gelu", attention_dropout=0.2,
        rope_parameters={"rope_type": "default", "rope_theta": THETA})),
    "bert": BertForMaskedLM(BertConfig(**BERT)),
    "bert-classifier": BertForSequenceClassification(BertConfig(
        **BERT, hidden_act="gelu_new", id2label={0: "sad", 1: "so-so", 2: "happy"},
        label2id={"sad": 0, "so-so": 1, "happy": 2})),
    "marian": MarianMTModel(MarianConfig(**MARIAN, scale_embedding=True)),
    "marian-separate": MarianMTModel(MarianConfig(
        **MARIAN, scale_embedding=False, share_encoder_decoder_embeddings=False,
        decoder_vocab_size=V)),
}


# Norms and angles go through float whatever the model's type is: here they do not.


def rms_norm(self, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


def rotary(self, x, position_ids):
    kind = self.config.rope_parameters["rope_type"]
    compute = (self.compute_default_rope_parameters if kind == "default"
               else ROPE_INIT_FUNCTIONS[kind])
    with mock.patch.multiple(torch, float=torch.float64, float32=torch.float64):
        frequency, scale = compute(self.config)
    angle = position_ids[..., None] * frequency
    angle = torch.cat([angle, angle], -1)
    return angle.cos() * scale, angle.sin() * scale


def randomize(model):
    """Numbers of a size that makes every part matter, norms around 1."""
    for name, p in model.named_parameters():
        norm = p.ndim == 1 and name.endswith("weight")
        scale = 0.4 if p.ndim == 1 else 1.4 * p.shape[-1] ** -0.5
        if "coder.embed_tokens" in name and not getattr(model.config, "scale_embedding", True):
            scale = 1.4
        if name.endswith("Attention.q.weight"):  # T5's scores are not scaled
            scale *= model.config.d_kv ** -0.5
        if p.requires_grad:
            p.data = torch.randn(p.shape) * scale + (1.0 if norm else 0.0)
    if isinstance(model, MarianMTModel):
        model.final_logits_bias = torch.randn(1, V)


def make_batch(model, ids):
    """Inputs of the model, and what its loss compares the logits with."""
    masked = type(model).__name__.endswith("ForMaskedLM")
    if masked or type(model).__name__.endswith("ForSequenceClassification"):
        segments = torch.randint(3, ids.shape)
        targets = torch.where(torch.rand(ids.shape) < 0.4, torch.randint(V, ids.shape), -100)
        batch = {"input_ids": ids}
        if hasattr(model.config, "type_vocab_size"):
            batch["token_type_ids"] = segments
        return batch, targets if masked else torch.tensor([2, 0])
    targets = F.pad(ids[:, 1:], (0, 1), value=-100)
    targets[0, 4] = -100
    if model.config.is_encoder_decoder:
        ids[:, 0] = model.config.decoder_start_token_id
        return {"input_ids": torch.randint(V, (B, S)), "decoder_input_ids": ids}, targets
    return {"input_ids": ids}, targets


def golden(model, ids):
    batch, targets = make_batch(model, ids)
    expected = model.eval()(**batch).logits.detach()
    model = model.double()
    for module in model.modules():
        if type(module).__name__.endswith(("RMSNorm", "T5LayerNorm")):
            module.forward = rms_norm.__get__(module)
        if type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = rotary.__get__(module)
    logits = model(**batch).logits
    assert (logits - expected).abs().max() < 1e-5 * logits.abs().max()
    loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
    loss.backward()
    out = {f"grad.{name}": p.grad for name, p in model.named_parameters() if p.requires_grad}
    out |= {"logits": logits.detach(), "loss": loss.detach()}
    out = {name: x.float().contiguous() for name, x in out.items()}
    if model.config.is_encoder_decoder:
        out["source"] = batch["input_ids"].int()
    out |= {"segments": x.int() for x in [batch.get("token_type_ids")] if x is not None}
    return out | {"ids": ids.int(), "targets": targets.int()}


def write_as_version_4(path):
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    theta = rope.pop("rope_theta")
    config |= {"rope_theta": theta, "torch_dtype": config.pop("dtype"),
               "rope_scaling": None if rope["rope_type"] == "default" else rope}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")


def write(models, version_4):
    for name, model in models.items():
        folder = f"{OUT}/{name}"
        model.config._attn_implementation = "eager"
        randomize(model)
        model.save_pretrained(folder)
        if name in version_4:
            write_as_version_4(f"{folder}/config.json")
        if os.path.exists(f"{folder}/generation_config.json"):
            os.remove(f"{folder}/generation_config.json")
        ids = torch.randint(V, (B, T))
        if name.startswith("roberta"):  # which gives padding no position of its own
            ids[ids == model.config.pad_token_id] = 0
        save_file(golden(model, ids), f"{OUT}/{name}.safetensors")


if __name__ == "__main__":
    torch.manual_seed(7)
    write(MODELS, ["llama-tied"])
