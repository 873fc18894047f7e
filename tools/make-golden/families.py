"""tests/golden/models: the layouts that change llama a little, with rotary positions that were
extended (17 tokens are more than the length they are extended from), and BERT's kin. As
tools/make-golden/models.py writes them. Run: python tools/make-golden/families.py"""

import torch
from transformers import (DistilBertConfig, DistilBertForMaskedLM,
                          DistilBertForSequenceClassification, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, Phi3Config, Phi3ForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification)

from models import BERT, LLAMA, THETA, V, write

ROBERTA = BERT | {"max_position_embeddings": 30, "pad_token_id": 3, "hidden_act": "relu"}
DISTILBERT = dict(vocab_size=V, max_position_embeddings=24, dim=24, n_layers=2, n_heads=3,
                  hidden_dim=40, dropout=0.05, attention_dropout=0.15, seq_classif_dropout=0.25,
                  pad_token_id=7)
NAMES = {"id2label": {0: "sad", 1: "so-so", 2: "happy"},
         "label2id": {"sad": 0, "so-so": 1, "happy": 2}}
SMALL = LLAMA | {"num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    "llama3": LlamaForCausalLM(LlamaConfig(
        **SMALL | {"eos_token_id": [5, 9]}, tie_word_embeddings=True, rope_parameters={
            "rope_type": "llama3", "rope_theta": THETA, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 12})),
    "mistral": MistralForCausalLM(MistralConfig(
        **SMALL, head_dim=8, sliding_window=6, rope_parameters={
            "rope_type": "linear", "rope_theta": THETA, "factor": 3.0})),
    "phi3": Phi3ForCausalLM(Phi3Config(
        **SMALL | {"num_attention_heads": 3, "num_key_value_heads": 1}, pad_token_id=7,
        sliding_window=9, resid_pdrop=0.05, embd_pdrop=0.15, rope_parameters={
            "rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": 0.75})),
    "qwen2": Qwen2ForCausalLM(Qwen2Config(
        **SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=1,
        tie_word_embeddings=True, rope_parameters={
            "rope_type": "yarn", "rope_theta": THETA, "factor": 4.0,
            "original_max_position_embeddings": 8})),
    "qwen3": Qwen3ForCausalLM(Qwen3Config(
        **SMALL, head_dim=8, attention_bias=True, rope_parameters={
            "rope_type": "yarn", "rope_theta": THETA, "factor": 4.0, "beta_fast": 3.0,
            "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.3,
            "original_max_position_embeddings": 8})),
    "roberta": RobertaForMaskedLM(RobertaConfig(**ROBERTA)),
    "roberta-classifier": RobertaForSequenceClassification(RobertaConfig(**ROBERTA, **NAMES)),
    "distilbert": DistilBertForMaskedLM(DistilBertConfig(**DISTILBERT)),
    "distilbert-classifier": DistilBertForSequenceClassification(DistilBertConfig(
        **DISTILBERT, activation="relu", **NAMES)),
}

if __name__ == "__main__":
    torch.manual_seed(11)
    write(MODELS, ["qwen2"])
