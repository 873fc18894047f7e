#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/ with Hugging Face's tokenizers and SentencePiece: what qkv's ids
must equal.

    python3 tools/make-golden/tokenizer.py [GPT2_VOCAB GPT2_MERGES]

train.txt       text to train on, made up here
docs.txt        texts to encode, U+001E between them
NAME/tokenizer.json (or vocab.txt, spiece.model), NAME.ids
                a tokenizer, and the ids of every text: a count, then ids, in 7-bit groups, the
                lowest first, with the high bit set in all but a number's last
gpt2.ids        the same with GPT-2's vocabulary, where its two files are given
"""
import io
import os
import random
import struct
import sys
import tempfile

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

OUT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "golden", "tokenizer")
END = "<|endoftext|>"
CHARACTERS = "abcdefghijklmnoprstuvwyzßéü漢かな한국어12043!.'-\u0131\u0307"

PARTS = [
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f44d\U0001f3fd", "漢字", "かな", "한국어", "e\u0301", "\u0300", "n\u0303", "\u212b",
    "\u00a0", "\u2003", "\u3000", "\t", "\r\n", "\n", "  ", "    ", " ", " ", "'s", "'S", "'ll",
    "don't", "we've", "I'm", "'", "''", "1", "2024", "٣", "½", "Ⅷ", "hello", "World", "ß", "İ",
    "ŉ", "ǆ", END, "<|endof", "...", "!?", "—", "„", "\u200d", "\u200b", "\ufeff", "\u0085",
    "\x0b", "\x0c", "\u2028", "\u1680", "\u180e", "\U0001d7d8", "\U00010400", "กำ", "नमस्ते",
    "مرحبا", "שלום", "a", "b", "\x00", "\x01", "\x7f", "\u0378", "\uffff", "\U0010ffff", "\u1c89",
    "\U00013460", "\U0001ccf0", "aaaa", "abab", " the", " of", "[left]", "[right]", "[word]",
    "[norm]", "_", "x",
]


def make_text(rng):
    """Words of syllables, few of them often: many pairs come equally often."""
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"] + ["ß", "ü", "é", "漢", "й", "st"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(900)]
    lines = []
    for _ in range(900):
        line = [words[min(int(rng.paretovariate(0.7)) - 1, 899)] for _ in range(rng.randint(3, 12))]
        if rng.random() < 0.2:
            line.insert(rng.randint(0, len(line)), str(rng.randint(0, 2500)))
        if rng.random() < 0.1:
            line.insert(rng.randint(0, len(line)), rng.choice(PARTS[:12]))
        if rng.random() < 0.2:
            line[0] = line[0].capitalize()
        lines.append(" ".join(line) + rng.choice([".", "!", "", ", 's", "  ", "\r"]))
    return "\n".join(lines) + "\n"


def make_docs(rng, text):
    docs = []
    for _ in range(1800):
        doc = ""
        for _ in range(rng.randint(0, 9)):
            if rng.random() < 0.85:
                doc += rng.choice(PARTS)
            else:
                low, high = rng.choice([(32, 0x17F), (0x180, 0xD7FF), (0xE000, 0x323AF)])
                doc += chr(rng.randint(low, high))
        docs.append(doc.replace("\x1e", ""))
    for n in range(0, 70, 3):
        docs += [" " * n + tail for tail in ("", "a", "\n", "\u3000b")]
    docs += [c * n for c in "ab !1" for n in (2, 3, 5, 31, 32, 33, 34, 64, 65, 66, 300)]
    return docs + text.split("\n")[:300]


def new_bpe(**fields):
    t = Tokenizer(models.BPE(**fields))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def train(t, text, vocab):
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[END], show_progress=False))
    return t


def with_added(text):
    """Every flag of added tokens."""
    t = train(new_bpe(), text, 400)
    t.add_tokens([
        AddedToken("[left]", lstrip=True, normalized=False),
        AddedToken("[right]", rstrip=True, normalized=False),
        AddedToken("[word]", single_word=True, normalized=True),
        AddedToken("[norm]", lstrip=True, rstrip=True, normalized=True),
        AddedToken("aaaa", normalized=True), AddedToken("aaa", normalized=False),
        AddedToken("[le", normalized=False), AddedToken("x", single_word=True)])
    return t


def with_pattern(text):
    """The parts that Llama 3's file has."""
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
               r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    t = new_bpe(ignore_merges=True)
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(t, text, 500)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{END} $A {END}", special_tokens=[(END, 0)])])
    return t


def with_word_ends(text):
    """The parts that CLIP's file has: a word's last token ends in </w>."""
    begin = "<|startoftext|>"
    t = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix="</w>",
                             unk_token=END))
    t.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|"
                                   r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[begin, END], end_of_word_suffix="</w>", show_progress=False))
    t.post_processor = processors.RobertaProcessing((END, 1), (begin, 0), False, False)
    return t


def with_splits(text):
    """Every way of a Split."""
    split = pre_tokenizers.Split
    t = new_bpe()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        split(Regex(r"\p{N}"), "removed"), split("'", "merged_with_previous"),
        split(Regex("[!?.]"), "merged_with_next"), split(Regex("[ab]"), "contiguous"),
        split(Regex(r"\S+"), "isolated", invert=True),
        split(Regex("t|e"), "merged_with_previous", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True)])
    return train(t, text, 350)


def bert_ids(t):
    return {name: t.token_to_id(name) for name in ("[CLS]", "[SEP]")}


def train_pieces(t, text, vocab):
    t.train_from_iterator(text.split("\n"), trainers.WordPieceTrainer(
        vocab_size=vocab, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return t


def with_wordpiece(text):
    """BERT, uncased; the file is vocab.txt."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    train_pieces(t, text, 600)
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=list(bert_ids(t).items()))
    return t


def with_words(text):
    """Other cleaning and cutting; long words; a normalized added token."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer = normalizers.Sequence([
        normalizers.BertNormalizer(clean_text=False, strip_accents=True, lowercase=False),
        normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Replace("b", " bb"), normalizers.Strip(), normalizers.Prepend("a")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation()])
    t.decoder = decoders.WordPiece(cleanup=False)
    train_pieces(t, text, 500)
    t.add_tokens([AddedToken("World", normalized=True)])
    ids = bert_ids(t)
    t.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return t


def with_unigram(text):
    """Unigram with Metaspace and bytes for what is unknown."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    t.train_from_iterator(text.split("\n"), trainers.UnigramTrainer(
        vocab_size=400, unk_token="<unk>", show_progress=False, special_tokens=["<unk>", END]))
    return t


def with_marks(text):
    """Single characters, a mark before what comes from the text's first; not trained."""
    t = Tokenizer(models.Unigram([("<unk>", 0.0)] + [(c, -1.0) for c in "\u2581" + CHARACTERS],
                                 unk_id=0))
    t.normalizer = normalizers.Sequence([
        normalizers.Strip(), normalizers.Nmt(), normalizers.NFKC(), normalizers.Lowercase(),
        normalizers.Replace("_", ""), normalizers.Replace("x", "ab")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex("[a-g]|1"), "isolated"),
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False)])
    t.add_tokens([AddedToken("wor", normalized=True), AddedToken("[right]", normalized=False)])
    return t


def train_spm(text, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), minloglevel=2, num_threads=1,
        model_writer=model, **options)
    return model.getvalue()


def field(message, number):
    """The bytes of a field of a protobuf message."""
    def varint(at):
        n = shift = 0
        while True:
            n |= (message[at] & 127) << shift
            shift += 7
            at += 1
            if message[at - 1] < 128:
                return n, at

    at = 0
    while at < len(message):
        tag, at = varint(at)
        size, at = ({0: lambda: (varint(at)[1] - at, at), 1: lambda: (8, at), 5: lambda: (4, at),
                     2: lambda: varint(at)}[tag & 7])()
        if tag == number << 3 | 2:
            return message[at:at + size]
        at += size


def rules(charsmap, prefix=b"", at=None):
    """(source, replacement) of a precompiled map: a Darts double array, then the replacements."""
    size, = struct.unpack_from("<I", charsmap)
    unit = lambda i: struct.unpack_from("<I", charsmap, 4 + 4 * i)[0]
    offset = lambda u: (u >> 10) << ((u & 512) >> 6)
    at = offset(unit(0)) if at is None else at
    for byte in range(1, 256):
        u = unit(at ^ byte) if 4 * (at ^ byte) < size else 0
        if u & 0x800000ff != byte:
            continue
        below, source = (at ^ byte) ^ offset(u), prefix + bytes([byte])
        if u >> 8 & 1:
            start = 4 + size + (unit(below) & 0x7fffffff)
            yield source.decode(), charsmap[start:charsmap.index(b"\0", start)].decode()
        yield from rules(charsmap, source, below)


def write_rules(path, text, docs):
    """SentencePiece's nmt_nfkc as far as these texts go: all of it is 240 kB in a model."""
    whole = train_spm(text, vocab_size=400, normalization_rule_name="nmt_nfkc")
    there = set(text).union(*docs)
    with open(path, "w") as f:
        for source, replacement in rules(field(field(whole, 3), 2)):
            if there.issuperset(source):
                f.write("\t".join(" ".join(f"{ord(c):X}" for c in s)
                                  for s in (source, replacement)) + "\n")


def write_spm(text, docs):
    """SentencePiece's own: both kinds, rules for characters or none, bytes, fixed pieces."""
    tsv = os.path.join(tempfile.mkdtemp(), "rules.tsv")
    write_rules(tsv, text, docs)
    kinds = {"spm-unigram": dict(model_type="unigram", normalization_rule_tsv=tsv,
                                 vocab_size=400, user_defined_symbols=["ba"]),
             "spm-bpe": dict(model_type="bpe", normalization_rule_name="identity",
                             vocab_size=700, byte_fallback=True, user_defined_symbols=["do", "\t"],
                             control_symbols=["<x>"], remove_extra_whitespaces=False)}
    for name, options in kinds.items():
        os.makedirs(os.path.join(OUT, name), exist_ok=True)
        model = train_spm(text, **options)
        with open(os.path.join(OUT, name, "spiece.model"), "wb") as f:
            f.write(model)
        p = sentencepiece.SentencePieceProcessor(model_proto=model)
        write_ids(name, p.encode, docs)


def write_ids(name, encode, docs):
    with open(os.path.join(OUT, name + ".ids"), "wb") as f:
        for doc in docs:
            ids = encode(doc)
            for n in (len(ids), *ids):
                while n > 127:
                    f.write(bytes([n & 127 | 128]))
                    n >>= 7
                f.write(bytes([n]))


def main():
    rng = random.Random(7)
    text = make_text(rng)
    docs = make_docs(rng, text)
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "train.txt"), "w", encoding="utf-8", newline="") as f:
        f.write(text)
    with open(os.path.join(OUT, "docs.txt"), "w", encoding="utf-8", newline="") as f:
        f.write("\x1e".join(docs))
    made = {"bpe": train(new_bpe(), text, 700), "added": with_added(text),
            "pattern": with_pattern(text), "splits": with_splits(text),
            "word-ends": with_word_ends(text),
            "wordpiece": with_wordpiece(text), "words": with_words(text),
            "unigram": with_unigram(text), "marks": with_marks(text)}
    write_spm(text, docs)
    for name, t in made.items():
        os.makedirs(os.path.join(OUT, name), exist_ok=True)
        if name == "wordpiece":
            t.model.save(os.path.join(OUT, name))
        else:
            t.save(os.path.join(OUT, name, "tokenizer.json"), pretty=False)
        write_ids(name, lambda doc, t=t: t.encode(doc).ids, docs)
    if len(sys.argv) == 3:
        t = new_bpe()
        t.model = models.BPE.from_file(sys.argv[1], sys.argv[2])
        t.add_special_tokens([END])
        write_ids("gpt2", lambda doc: t.encode(doc).ids, docs)


main()
