"""tests/golden/models: T5, as tools/make-golden/models.py writes the others. Texts are longer than
the distance from which on positions share a bucket. t5-gated's config.json is rewritten as the hub
has those of v1.1. tests/golden/relative.safetensors: BUCKETS-DISTANCE.encoder and .decoder, the
buckets of the offsets -400 .. 400. Run: python tools/make-golden/t5.py"""

import json

import torch
from safetensors.torch import save_file
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from models import OUT, V, write

SMALL = dict(vocab_size=V, d_model=24, d_ff=40, num_layers=2, num_heads=3, pad_token_id=0,
             eos_token_id=1, decoder_start_token_id=0, layer_norm_epsilon=1e-5)
CONFIGS = {
    "t5": dict(d_kv=5, num_decoder_layers=3, relative_attention_num_buckets=8,
               relative_attention_max_distance=7, dropout_rate=0.2),
    "t5-gated": dict(d_kv=12, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                     relative_attention_num_buckets=13, relative_attention_max_distance=11),
    "t5-silu": dict(d_kv=8, feed_forward_proj="gated-silu", num_decoder_layers=1,
                    relative_attention_num_buckets=4, relative_attention_max_distance=128),
}


def make(fields):
    """Those that are not tied have an output layer of their own; transformers 5 shares it."""
    model = T5ForConditionalGeneration(T5Config(**SMALL | fields))
    if not model.config.scale_decoder_outputs:
        model.lm_head.weight = torch.nn.Parameter(torch.zeros(V, 24))
    return model


def write_as_on_the_hub(path):
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    for key in ("scale_decoder_outputs", "dense_act_fn", "is_gated_act", "is_decoder"):
        del config[key]
    config |= {"tie_word_embeddings": False, "torch_dtype": config.pop("dtype"),
               "output_past": True, "n_positions": 512, "num_decoder_layers": None}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")


def buckets():
    offsets = torch.arange(-400, 401)
    return {f"{n}-{distance}.{side}": T5Attention._relative_position_bucket(
                offsets, side == "encoder", n, distance).int()
            for n, distance in ((32, 128), (64, 256), (4, 3), (13, 11), (8, 300))
            for side in ("encoder", "decoder")}


if __name__ == "__main__":
    torch.manual_seed(17)
    write({name: make(fields) for name, fields in CONFIGS.items()}, [])
    write_as_on_the_hub(f"{OUT}/t5-gated/config.json")
    save_file(buckets(), "tests/golden/relative.safetensors")
