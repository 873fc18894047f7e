"""tests/golden/quantized: tiny random Llamas in 8 and 4 bits, as the package compressed-tensors
packs them, and what transformers makes of them. It needs that package beside transformers.
Run: python tools/make-golden/quantized.py

NAME/               config.json and model.safetensors (packed) by compressed-tensors
NAME.safetensors    ids (B, T), logits of the weights that the integers stand for, computed in
                    double precision, and two of these weights as compressed-tensors unpacks them
tiny/               the same of 32 channels, for tests/fuzz"""

import glob
import os

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import (QuantizationArgs, QuantizationConfig,
                                             QuantizationScheme, apply_quantization_config)
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = "tests/golden/quantized"
B, T, V = 2, 17, 61
CONFIG = dict(vocab_size=V, max_position_embeddings=24, hidden_size=64, num_hidden_layers=1,
              intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              rms_norm_eps=0.01, initializer_range=0.1, bos_token_id=3, eos_token_id=5,
              tie_word_embeddings=False)
# Bits, and how many neighbours of a row share a scale; None: all of them.
MODELS = {"int8": (8, None), "int8-groups": (8, 32), "int4": (4, 32), "int4-rows": (4, None)}


def scales_of(weight, bits, group):
    groups = weight.reshape(weight.shape[0], -1, group or weight.shape[1])
    return groups.abs().amax(-1) / (2 ** (bits - 1) - 0.5)


def quantized(bits, group, fields):
    model = LlamaForCausalLM(LlamaConfig(**fields)).eval()
    args = QuantizationArgs(num_bits=bits, type="int", symmetric=True,
                            strategy="group" if group else "channel", group_size=group)
    config = QuantizationConfig(
        config_groups={"group_0": QuantizationScheme(targets=["Linear"], weights=args)},
        ignore=["lm_head"], format="pack-quantized", quantization_status="frozen")
    apply_quantization_config(model, config)
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            module.weight_scale.data = scales_of(module.weight.data, bits, group)
    return model, config


def save(name, bits, group, fields):
    torch.manual_seed(7 + bits)
    model, config = quantized(bits, group, fields)
    directory = f"{OUT}/{name}"
    compressor = ModelCompressor(quantization_config=config)
    compressor.compress_model(model)
    model.save_pretrained(directory)
    compressor.update_config(directory)
    for path in glob.glob(f"{directory}/generation_config.json"):
        os.remove(path)
    return model, compressor


def write(name, bits, group):
    model, compressor = save(name, bits, group, CONFIG)
    compressor.decompress_model(model)
    plain = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items()
                           if not k.endswith(("_scale", "_shape"))})
    ids = torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = plain.double()(ids).logits
    out = {"ids": ids.int(), "logits": logits.float()}
    for key in ("model.layers.0.self_attn.k_proj.weight", "model.layers.0.mlp.down_proj.weight"):
        out[key] = plain.state_dict()[key].float()
    save_file(out, f"{OUT}/{name}.safetensors")


os.makedirs(OUT, exist_ok=True)
for name, (bits, group) in MODELS.items():
    write(name, bits, group)
save("tiny", 4, 32, CONFIG | dict(vocab_size=8, hidden_size=32, intermediate_size=32,
                                  num_attention_heads=2, num_key_value_heads=1))
