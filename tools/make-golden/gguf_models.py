#!/usr/bin/env python3
"""Small models in GGUF files that gguf-py wrote, with what transformers and tokenizers make of the
same: tests/golden/gguf/NAME.gguf; NAME.safetensors has logits (of a BERT vectors of the tokens)
and, for every text of texts.txt (a line each), its ids.

    python tools/make-golden/gguf_models.py tests/golden/gguf
"""
import io
import sys
import types
from pathlib import Path

import gguf
import sentencepiece
import torch
from safetensors.torch import save_file
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)
from sentencepiece import sentencepiece_model_pb2
from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, RobertaConfig,
                          RobertaModel)

TEXT = "the cat sat on the mat. The dog's 123 cats ate 4567 mats, and THE END of that."
TEXTS = ["the cat sat", "The dog's  12345 cats", "odd \u00e9\u4e2d \U0001f600 <tool> end",
         "</s> mat\tsat ", "THE [MASK] End\u0301 of-that."]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def halves(model):
    """Numbers that halves hold; norms and biases that are not all 1 and 0."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((p + torch.randn_like(p) * 0.05).half().float())
    return model.eval()


def permuted(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).transpose(1, 2).reshape(
        w.shape)


def put(writer, name, tensor):
    matrix = tensor.ndim > 1 and name not in ("position_embd.weight", "token_types.weight")
    writer.add_tensor(name, (tensor.half() if matrix else tensor.float()).contiguous().numpy())


def token_lists(tokenizer, user=()):
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special}
    kind = gguf.TokenType
    return [token for token, _ in vocab], [
        kind.CONTROL if token in special else kind.USER_DEFINED if token in user else kind.NORMAL
        for token, _ in vocab]


def sizes(writer, vocab, width, layers, heads, ff, length):
    writer.add_vocab_size(vocab)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_feed_forward_length(ff)
    writer.add_context_length(length)


def finish(writer, out, name, tokenizer, logits):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ids = {f"ids.{i}": torch.tensor(tokenizer.encode(text).ids, dtype=torch.int32)
           for i, text in enumerate(TEXTS)}
    save_file(ids | {"logits": logits.contiguous()}, out / f"{name}.safetensors")


def byte_bpe(pattern=None, special=("<s>", "</s>")):
    tokenizer = Tokenizer(models.BPE(ignore_merges=bool(pattern)))
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=280, special_tokens=list(special), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    if pattern:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    return tokenizer


def merges_of(tokenizer):
    import json
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


LLAMA_LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
               "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
               "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def put_llama(writer, model):
    config, state = model.config, model.state_dict()
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    put(writer, "token_embd.weight", state["model.embed_tokens.weight"])
    put(writer, "output_norm.weight", state["model.norm.weight"])
    if not config.tie_word_embeddings:
        put(writer, "output.weight", state["lm_head.weight"])
    for i in range(config.num_hidden_layers):
        for theirs, ours in LLAMA_LAYER.items():
            w = state[f"model.layers.{i}.{ours}.weight"]
            put(writer, f"blk.{i}.{theirs}.weight",
                permuted(w, heads[theirs]) if theirs in heads else w)


def llama_config(vocab, **more):
    return LlamaConfig(vocab_size=vocab, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                       num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
                       rms_norm_eps=1e-5, initializer_range=0.2, **more)


def put_llama_fields(writer, config):
    sizes(writer, config.vocab_size, 16, 2, 2, 24, 64)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)


def logits_of(model, tokenizer):
    with torch.no_grad():
        return model(torch.tensor([tokenizer.encode(TEXTS[0]).ids])).logits[0]


def llama(out):
    """llama3's positions, a template, an end of turns; not tied."""
    tokenizer = byte_bpe(LLAMA3)
    config = llama_config(tokenizer.get_vocab_size(), tie_word_embeddings=False, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})
    model = halves(LlamaForCausalLM(config))
    writer = gguf.GGUFWriter(out / "llama.gguf", "llama")
    put_llama_fields(writer, config)
    writer.add_rope_freq_base(500000.0)
    tokens, kinds = token_lists(tokenizer, ["<tool>"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges_of(tokenizer))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(280)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)
    put_llama(writer, model)
    default = 1.0 / (500000.0 ** (torch.arange(0, 8, 2).double() / 8))
    put(writer, "rope_freqs.weight", default / model.model.rotary_emb.inv_freq.double())
    finish(writer, out, "llama", tokenizer, logits_of(model, tokenizer))


def spm(out):
    """SentencePiece's BPE, with scores; tied."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    pieces += [*"\u2581abcdefghimnoqrstuvTHED.,'0123456789", "th", "at", "\u2581th", "\u2581the",
               "ca", "\u2581cat", "\u2581c", "\u2581m", "he", "\u2581mat", "sat", "\u2581s"]
    pieces = list(dict.fromkeys(pieces))
    scores = [0.0 if i < 259 else -float(i) for i in range(len(pieces))]
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = sorted(((-i, piece[:at], piece[at:]) for piece, i in ids.items() if i > 258
                     for at in range(1, len(piece)) if piece[:at] in ids and piece[at:] in ids),
                    key=lambda m: (-m[0], -len(m[1])))
    tokenizer = Tokenizer(models.BPE(ids, [m[1:] for m in merges], unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    config = llama_config(len(pieces), tie_word_embeddings=True)
    model = halves(LlamaForCausalLM(config))
    writer = gguf.GGUFWriter(out / "spm.gguf", "llama")
    put_llama_fields(writer, config)
    kind = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256 +
                           [kind.NORMAL] * (len(pieces) - 259))
    put_llama(writer, model)
    finish(writer, out, "spm", tokenizer, logits_of(model, tokenizer))


GPT2_LAYER = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
              "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def gpt2(out):
    tokenizer = byte_bpe()
    model = halves(GPT2LMHeadModel(GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_embd=16, n_layer=2, n_head=2, n_positions=64,
        n_inner=24, initializer_range=0.2, bos_token_id=0, eos_token_id=1)))
    state = model.state_dict()
    writer = gguf.GGUFWriter(out / "gpt2.gguf", "gpt2")
    sizes(writer, model.config.vocab_size, 16, 2, 2, 24, 64)
    writer.add_layer_norm_eps(1e-5)
    tokens, kinds = token_lists(tokenizer, ["<tool>"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges_of(tokenizer))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    put(writer, "token_embd.weight", state["transformer.wte.weight"])
    put(writer, "position_embd.weight", state["transformer.wpe.weight"])
    for part in ("weight", "bias"):
        put(writer, f"output_norm.{part}", state[f"transformer.ln_f.{part}"])
        for i in range(2):
            for theirs, ours in GPT2_LAYER.items():
                w = state[f"transformer.h.{i}.{ours}.{part}"]
                put(writer, f"blk.{i}.{theirs}.{part}", w.T if w.ndim > 1 else w)
    finish(writer, out, "gpt2", tokenizer, logits_of(model, tokenizer))


BERT_LAYER = {"attn_q": "attention.self.query", "attn_k": "attention.self.key",
              "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
              "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense",
              "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}


def wordpiece(special):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator([TEXT.lower()], trainers.WordPieceTrainer(
        vocab_size=80, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def put_words(writer, tokenizer, special):
    tokens, kinds = token_lists(tokenizer)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([t if t in special else t[2:] if t.startswith("##") else "\u2581" + t
                           for t in tokens])
    writer.add_token_types(kinds)
    for role, token in (("bos", 2), ("unk", 1), ("sep", 3), ("pad", 0), ("mask", 4)):
        getattr(writer, f"add_{role}_token_id")(token)


def put_bert(writer, state, layer, names):
    """Without a pooler, as llama.cpp's converter leaves encoders."""
    put(writer, "token_embd.weight", state["embeddings.word_embeddings.weight"])
    for part in ("weight", "bias"):
        put(writer, f"token_embd_norm.{part}", state[f"embeddings.LayerNorm.{part}"])
        for i in range(2):
            for theirs, ours in names.items():
                put(writer, f"blk.{i}.{theirs}.{part}", state[f"{layer}.{i}.{ours}.{part}"])


def hidden_of(model, tokenizer):
    with torch.no_grad():
        return model(torch.tensor([tokenizer.encode(TEXTS[0]).ids])).last_hidden_state[0]


def begin_bert(out, name, vocab, pooling, eps, segments):
    writer = gguf.GGUFWriter(out / f"{name}.gguf", "bert")
    sizes(writer, vocab, 16, 2, 2, 24, 64)
    writer.add_layer_norm_eps(eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    writer.add_token_type_count(segments)
    return writer


BERT_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 24, "initializer_range": 0.2}


def bert(out):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = wordpiece(special)
    model = halves(BertModel(BertConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=64, **BERT_SIZES),
        add_pooling_layer=False))
    state = model.state_dict()
    writer = begin_bert(out, "bert", model.config.vocab_size, gguf.PoolingType.CLS, 1e-12, 2)
    put_words(writer, tokenizer, special)
    put(writer, "position_embd.weight", state["embeddings.position_embeddings.weight"])
    put(writer, "token_types.weight", state["embeddings.token_type_embeddings.weight"])
    put_bert(writer, state, "encoder.layer", BERT_LAYER)
    finish(writer, out, "bert", tokenizer, hidden_of(model, tokenizer))


DISTILBERT_LAYER = {"attn_q": "attention.q_lin", "attn_k": "attention.k_lin",
                    "attn_v": "attention.v_lin", "attn_output": "attention.out_lin",
                    "attn_output_norm": "sa_layer_norm", "ffn_up": "ffn.lin1",
                    "ffn_down": "ffn.lin2", "layer_output_norm": "output_layer_norm"}


def distilbert(out):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = wordpiece(special)
    model = halves(DistilBertModel(DistilBertConfig(
        vocab_size=tokenizer.get_vocab_size(), dim=16, n_layers=2, n_heads=2, hidden_dim=24,
        max_position_embeddings=64, initializer_range=0.2)))
    state = model.state_dict()
    writer = begin_bert(out, "distilbert", model.config.vocab_size, gguf.PoolingType.MEAN, 1e-12, 1)
    put_words(writer, tokenizer, special)
    put(writer, "position_embd.weight", state["embeddings.position_embeddings.weight"])
    put_bert(writer, state, "transformer.layer", DISTILBERT_LAYER)
    finish(writer, out, "distilbert", tokenizer, hidden_of(model, tokenizer))


def roberta(out):
    """Positions follow the padding token's id: the file has no rows before."""
    tokenizer = byte_bpe(special=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    model = halves(RobertaModel(RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=66, type_vocab_size=1,
        layer_norm_eps=1e-5, **BERT_SIZES), add_pooling_layer=False))
    state = model.state_dict()
    writer = begin_bert(out, "roberta", model.config.vocab_size, gguf.PoolingType.MEAN, 1e-5, 1)
    tokens, kinds = token_lists(tokenizer, ["<tool>"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("roberta-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges_of(tokenizer))
    for role, token in (("bos", 0), ("pad", 1), ("eos", 2), ("unk", 3), ("mask", 4), ("sep", 2)):
        getattr(writer, f"add_{role}_token_id")(token)
    for role in ("bos", "eos", "sep"):
        getattr(writer, f"add_add_{role}_token")(True)
    put(writer, "position_embd.weight", state["embeddings.position_embeddings.weight"][2:])
    put(writer, "token_types.weight", state["embeddings.token_type_embeddings.weight"])
    put_bert(writer, state, "encoder.layer", BERT_LAYER)
    finish(writer, out, "roberta", tokenizer, hidden_of(model, tokenizer))


RULES = "41\t61\n42\t62\nA0\t20\n9\t20\ne9\t65 301\n1F600\t3A 29\n"  # hexadecimal


class SentencePiece:
    """The reference itself; </s> is cut out before, and ends every text."""

    def __init__(self, folder):
        rules, model = folder / "rules.tsv", io.BytesIO()
        rules.write_text(RULES, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([TEXT] * 4), model_writer=model, model_type="unigram",
            vocab_size=48, normalization_rule_tsv=str(rules), pad_id=3, hard_vocab_limit=False,
            minloglevel=2)
        rules.unlink()
        self.proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
        self.model = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())

    def encode(self, text):
        ids = []
        for i, part in enumerate(text.split("</s>")):
            ids += ([2] if i else []) + self.model.encode(part)
        return types.SimpleNamespace(ids=ids + [2])


def unigram(out):
    """A Llama whose tokens are a unigram model's, with rules for characters."""
    tokenizer = SentencePiece(out)
    pieces = tokenizer.proto.pieces
    config = llama_config(len(pieces), tie_word_embeddings=True)
    model = halves(LlamaForCausalLM(config))
    writer = gguf.GGUFWriter(out / "unigram.gguf", "llama")
    put_llama_fields(writer, config)
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece for piece in pieces])
    writer.add_token_scores([piece.score for piece in pieces])
    writer.add_token_types([piece.type for piece in pieces])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(tokenizer.proto.normalizer_spec.precompiled_charsmap)
    for role, token in (("unk", 0), ("bos", 1), ("eos", 2), ("pad", 3)):
        getattr(writer, f"add_{role}_token_id")(token)
    put_llama(writer, model)
    finish(writer, out, "unigram", tokenizer, logits_of(model, tokenizer))


def main():
    out = Path(sys.argv[1])
    torch.manual_seed(11)
    for make in (llama, spm, gpt2, bert, roberta, distilbert, unigram):
        make(out)
    (out / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")


main()
