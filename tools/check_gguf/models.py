"""models.py - small models of random weights, with tokenizers that learned a text, as transformers
saves them."""
import io
import os

import sentencepiece
import torch
import transformers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)
from sentencepiece import sentencepiece_model_pb2
from transformers import (BertConfig, BertForSequenceClassification, BertModel, DistilBertConfig,
                          DistilBertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, RobertaConfig, RobertaForSequenceClassification,
                          RobertaModel)

VOCAB = 700
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def save(tokenizer, folder, **roles):
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE,
                                         **roles).save_pretrained(folder)


def byte_bpe(folder, text, pattern=None, digits=False, nfc=False, ignore_merges=False, bos=False):
    """Byte-level BPE; the ends are <s>, </s>, and a token of the user <tool>."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    parts = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        parts.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if len(parts) > 1 else parts[0]
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=VOCAB - 1, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    save(tokenizer, folder, bos_token="<s>", eos_token="</s>")


def spm(folder, text):
    """SentencePiece's BPE with bytes, as Llama 2 has it: all pairs that are a piece, by score."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="bpe",
        vocab_size=VOCAB, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, character_coverage=0.999,
        minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocab = {pieces.id_to_piece(i): i for i in range(pieces.vocab_size())}
    scores = {piece: pieces.get_score(i) for piece, i in vocab.items()}
    merges = [(scores[piece], -len(piece[:at]), piece[:at], piece[at:])
              for piece, i in vocab.items() if i > 2 and not pieces.is_byte(i)
              for at in range(1, len(piece)) if piece[:at] in vocab and piece[at:] in vocab]
    merges.sort(key=lambda m: (-m[0], m[1]))
    tokenizer = Tokenizer(models.BPE(vocab, [m[2:] for m in merges], unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "),
                                           decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    save(tokenizer, folder, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def unigram(folder, text):
    """SentencePiece's unigram model with T5's normalisation and end."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="unigram",
        vocab_size=VOCAB, pad_id=3, character_coverage=0.999, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
        normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581",
                                                       prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", "<pad>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    save(tokenizer, folder, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
         pad_token="<pad>")


def roberta_bpe(folder, text, lowercase):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text.lower() if lowercase else text], trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    save(tokenizer, folder, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
         pad_token="<pad>", cls_token="<s>", sep_token="</s>", mask_token="<mask>")


def wordpiece(folder, text, lowercase):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator([text], trainers.WordPieceTrainer(
        vocab_size=VOCAB, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    save(tokenizer, folder, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
         sep_token="[SEP]", mask_token="[MASK]")


SIZES = {"vocab_size": VOCAB, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
         "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None, "initializer_range": 0.08}


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(**(SIZES | more)))


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0} | more


ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
LLAMA_BPE = {"pattern": LLAMA3, "ignore_merges": True, "bos": True}
# Name, model, tokenizer, what llama.cpp calls its cutting of texts.
MODELS = [
    ("gpt2", lambda: GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_embd=256, n_layer=2, n_head=4, n_positions=512, bos_token_id=0,
        eos_token_id=1, initializer_range=0.08)), byte_bpe, {}, "gpt-2"),
    ("llama", llama, byte_bpe, LLAMA_BPE, "llama-bpe"),
    ("llama, tied, biases, long heads", lambda: llama(
        tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=96), byte_bpe,
     {"digits": True}, "smollm"),
    ("llama, llama3", lambda: llama(rope_parameters=rope(
        "llama3", low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=256), eos_token_id=[1, 2]), byte_bpe, LLAMA_BPE,
     "llama-bpe"),
    ("llama, llama3 of other factors", lambda: llama(rope_parameters=rope(
        "llama3", factor=12.5, low_freq_factor=0.75, high_freq_factor=9.0,
        original_max_position_embeddings=100)), byte_bpe, LLAMA_BPE, "llama-bpe"),
    ("llama, linear", lambda: llama(rope_parameters=rope("linear")), byte_bpe, {}, "gpt-2"),
    ("llama, yarn", lambda: llama(rope_parameters=rope(
        "yarn", original_max_position_embeddings=128)), byte_bpe, {}, "gpt-2"),
    ("llama, SentencePiece", lambda: llama(bos_token_id=1, eos_token_id=2), spm, {}, "default"),
    ("llama, unigram", lambda: llama(bos_token_id=1, eos_token_id=2), unigram, {}, "default"),
    ("mistral", lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=512)), byte_bpe,
     {}, "gpt-2"),
    ("qwen2", lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)), byte_bpe,
     {"pattern": QWEN2, "nfc": True}, "qwen2"),
    ("qwen3", lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=32)), byte_bpe,
     {"pattern": QWEN2, "nfc": True}, "qwen2"),
    ("phi3", lambda: Phi3ForCausalLM(Phi3Config(**SIZES, sliding_window=None)), byte_bpe, {},
     "gpt-2"),
]
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
# Name, class and configuration, what differs, tokenizer, lowercase, what llama.cpp calls its
# cutting of texts.
ENCODERS = [
    ("bert", BertModel, BertConfig, {}, wordpiece, True, "default"),
    ("bert, cased, first token", BertModel, BertConfig, {"hidden_size": 128}, wordpiece, False,
     "default"),
    ("bert, classes", BertForSequenceClassification, BertConfig, LABELS, wordpiece, True,
     "default"),
    ("roberta", RobertaModel, RobertaConfig, ROBERTA, roberta_bpe, False, "roberta-bpe"),
    ("roberta, classes", RobertaForSequenceClassification, RobertaConfig, ROBERTA | LABELS,
     roberta_bpe, True, "roberta-bpe"),
    ("distilbert", DistilBertModel, DistilBertConfig,
     {"dim": 256, "hidden_dim": 512, "n_layers": 2, "n_heads": 4}, wordpiece, True, "default")]


def noisy(model):
    """Biases and norms that are not all 0 and 1."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.05)
    return model.eval()


def make(folder, text, name, maker, tokenizer, more, _):
    print(name)
    os.makedirs(folder, exist_ok=True)
    model = noisy(maker())
    model.save_pretrained(folder)
    tokenizer(folder, text, **more)
    return model


def make_encoder(folder, text, name, maker, config, more, tokenizer, lowercase, _):
    print(name)
    os.makedirs(folder, exist_ok=True)
    sizes = {} if "dim" in more else {"hidden_size": 256, "intermediate_size": 512,
                                      "num_hidden_layers": 2, "num_attention_heads": 4}
    model = noisy(maker(config(vocab_size=VOCAB, **(sizes | more))))
    model.save_pretrained(folder)
    tokenizer(folder, text, lowercase)
    return model
