"""tests/golden/configs/VERSION-TYPE.json: the default configuration of every family that qkv opens,
with every field that a version of transformers writes. Run it once with each major version:
python tools/make-golden/configs.py"""

import transformers
from transformers import (BertConfig, CLIPConfig, DeiTConfig, Dinov2Config,
                          Dinov2WithRegistersConfig, DistilBertConfig, GPT2Config, LlamaConfig,
                          MarianConfig, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config,
                          RobertaConfig, T5Config, ViTConfig, ViTMAEConfig)

OUT = "tests/golden/configs"
FAMILIES = [BertConfig, CLIPConfig, DeiTConfig, Dinov2Config, Dinov2WithRegistersConfig,
            DistilBertConfig, GPT2Config, LlamaConfig, MarianConfig, MistralConfig, Phi3Config,
            Qwen2Config, Qwen3Config, RobertaConfig, T5Config, ViTConfig, ViTMAEConfig]

version = transformers.__version__.split(".", maxsplit=1)[0]
for family in FAMILIES:
    config = family()
    config.to_json_file(f"{OUT}/{version}-{config.model_type}.json", use_diff=False)
