"""tests/golden/models: adapters as PEFT saves them, on models of tools/make-golden/models.py, and
what PEFT makes of them. Run: python tools/make-golden/adapters.py [NAME ..]

NAME/               adapter_config.json and adapter_model.safetensors by save_pretrained; the model
                    beneath is named by a path relative to NAME
NAME.safetensors    as in models.py; grad.MODULE.lora_A, .lora_B and those of modules_to_save"""

import json
import os
import shutil
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification)

from models import B, OUT, T, V, golden

UNDER = "base_model.model."
ADAPTERS = {
    "gpt2-lora": ("gpt2", AutoModelForCausalLM, dict(
        r=3, lora_alpha=5, use_rslora=True, target_modules=["c_attn", "mlp.c_proj"],
        fan_in_fan_out=True, task_type="CAUSAL_LM")),
    "llama-lora": ("llama", AutoModelForCausalLM, dict(
        r=4, lora_alpha=7, target_modules=r".*(q_proj|v_proj|down_proj)", lora_dropout=0.3,
        rank_pattern={"down_proj": 2}, task_type="CAUSAL_LM")),
    "bert-classifier-lora": ("bert-classifier", AutoModelForSequenceClassification, dict(
        r=2, lora_alpha=3, target_modules=["query", "value", "output.dense"],
        task_type="SEQ_CLS")),
    # Of a masked language model, whose file lacks the pooler: the adapter alone knows the classes.
    "bert-lora": ("bert", AutoModelForSequenceClassification, dict(
        r=2, lora_alpha=3, target_modules=["query", "value"], modules_to_save=["pooler"],
        task_type="SEQ_CLS")),
}
CLASSES = {"bert-lora": {"num_labels": 3}}


def plain(name):
    """PEFT's name of a parameter -> the one in its file, without what is before the model's."""
    return (name.removeprefix(UNDER).replace(".default", "").replace(".modules_to_save", "")
            .replace(".lora_A.weight", ".lora_A").replace(".lora_B.weight", ".lora_B"))


for name in sys.argv[1:] or ADAPTERS:
    base, kind, config = ADAPTERS[name]
    torch.manual_seed(12)
    model = get_peft_model(kind.from_pretrained(f"{OUT}/{base}", **CLASSES.get(name, {})),
                           LoraConfig(**config))
    for parameter, p in model.named_parameters():
        if p.requires_grad:
            p.data = torch.randn(p.shape) * 0.5 * p.shape[-1] ** -0.5
    folder = f"{OUT}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    if os.path.exists(f"{folder}/README.md"):
        os.remove(f"{folder}/README.md")
    with open(f"{folder}/adapter_config.json", encoding="utf-8") as f:
        saved = json.load(f)
    saved["base_model_name_or_path"] = f"../{base}"
    with open(f"{folder}/adapter_config.json", "w", encoding="utf-8") as f:
        json.dump(saved, f, indent=2)
        f.write("\n")
    arrays = golden(model.base_model.model, torch.randint(V, (B, T)))
    save_file({f"grad.{plain(k[5:])}" if k.startswith("grad.") else k: x
               for k, x in arrays.items()}, f"{OUT}/{name}.safetensors")
    print(name, sorted(k for k in map(plain, arrays) if k.startswith("grad."))[:4])
