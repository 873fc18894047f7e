"""bert.py - BERT with a head for masked words or for classes, and its tokenizer."""
import ctypes
import json
import os
import random
import shutil

import numpy as np
import torch
from transformers import (AutoTokenizer, BertConfig, BertForMaskedLM, BertForPreTraining,
                          BertForSequenceClassification, BertModel, BertTokenizerFast,
                          DistilBertConfig, DistilBertForMaskedLM,
                          DistilBertForSequenceClassification, DistilBertModel, RobertaConfig,
                          RobertaForMaskedLM, RobertaForSequenceClassification, RobertaModel)

from .evaluate import (PARTS, TOLERANCE, BertInput, Tape, check, check_close, check_ids,
                       check_same_config, convert, empty_folder, open_model, varied, write)

BERT_PARTS = ["[MASK]", "[SEP]", "[UNK]", "unaffable", "naïve", "ELÈVE", "ÅNGSTRÖM", "ﬁ", "a_b"]


# ---- evaluating  ---------------------------------------------


def batch_of(rng, config, rows=3, length=19):
    """Ids, types, and how many of each row are real."""
    lengths = [length] + [rng.randint(2, length) for _ in range(rows - 1)]
    ids = [[rng.randrange(config.vocab_size) for _ in range(length)] for _ in range(rows)]
    types = [[rng.randrange(config.type_vocab_size) for _ in range(length)] for _ in range(rows)]
    return ids, types, lengths


def qkv_logits(qkv, folder, classifier, ids, types, lengths, columns):
    """Of every real row, in order; or of every sequence."""
    length = len(ids[0])
    rows = [i * length + (0 if classifier else k) for i, n in enumerate(lengths)
            for k in range(1 if classifier else n)]
    with Tape(qkv.library, folder) as t:
        hidden = t.call("qkv_bert_hidden", ctypes.byref(BertInput(
            t.ids(ids), t.ids(types), 0, None, t.lengths(lengths))))
        head = "qkv_bert_class_logits" if classifier else "qkv_bert_word_logits"
        return t.read(t.call(head, hidden, t.ids(rows)), len(rows), columns)


def check_logits(qkv, folder, model, rng):
    classifier = isinstance(model, BertForSequenceClassification)
    ids, types, lengths = batch_of(rng, model.config)
    mask = torch.arange(len(ids[0]))[None] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(ids), token_type_ids=torch.tensor(types),
                         attention_mask=mask.long()).logits
    if not classifier:
        expected = expected[mask]
    got = qkv_logits(qkv, folder, classifier, ids, types, lengths, expected.shape[-1])
    check_close(f"logits {tuple(expected.shape)} of a padded batch", got, expected)


def check_tokenizer(qkv, folder, rng, maker):
    tokenizer = maker.from_pretrained(folder)
    lines = varied(rng, 1000, BERT_PARTS) + [""]
    check_ids(f"{maker.__name__}'s ids", qkv.library.encode(folder, lines, 1),
              [tokenizer(line)["input_ids"] for line in lines], lines)
    pairs = [(a, b or "b") for a, b in zip(lines, reversed(lines))]
    expected = [tokenizer(a, b) for a, b in pairs]
    check_ids("ids and types", qkv.library.encode_pairs(folder, pairs),
              [(e["input_ids"], e["token_type_ids"]) for e in expected], pairs)
    roles = [tokenizer.mask_token, tokenizer.pad_token, tokenizer.cls_token, tokenizer.sep_token]
    check("roles of tokens", None not in roles, " ".join(map(str, roles)))
    return tokenizer


# ---- trained here  ---------------------------------------------

# Tokenizer, flags of `train mlm`, flags of `train classify`.
TRAINED = [("wordpiece", [], []), ("bpe", ["--set", "hidden_act=gelu_new"], []),
           ("char", [], ["--set", "classifier_dropout=0.2"])]


def write_labelled(scratch, rng, text):
    """Words of the text behind the label of their number, and other words."""
    words, out = text.replace("\t", " ").split(), []
    for _ in range(200):
        a, b = (" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(2))
        label = ["few", "some", "a lot"][min((len(a.split()) - 1) // 2, 2)]
        out.append(f"{label}\t{a}\t{b}\n")
    return write(scratch, "labelled.tsv", "".join(out))


def check_classes(qkv, folder, model, tokenizer, path):
    """`qkv eval` of labelled texts against transformers' own measures."""
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8", newline="")]
    labels = torch.tensor([model.config.label2id[row[0]] for row in rows])
    with torch.no_grad():
        logits = torch.cat([model(**tokenizer(
            *row[1:], truncation=True, max_length=model.config.max_position_embeddings,
            return_tensors="pt")).logits for row in rows])
    loss = torch.nn.functional.cross_entropy(logits.double(), labels).item()
    accuracy = (logits.argmax(-1) == labels).double().mean().item()
    got = qkv.json("eval", folder, "--file", path)
    check("loss and accuracy", abs(got["loss"] - loss) <= TOLERANCE * loss and
          abs(got["accuracy"] - accuracy) < 1e-9,
          f"{got['loss']:.6f}, {got['accuracy']:.4f}; transformers {loss:.6f}, {accuracy:.4f}")
    folder_text = write(folder, "pairs.txt", "".join("\t".join(r[1:]) + "\n" for r in rows))
    answers = [json.loads(line) for line in qkv.run("classify", folder, "--file", folder_text,
                                                    "--json").splitlines()]
    probs = torch.tensor([[a["probs"][model.config.id2label[i]] for i in range(logits.shape[1])]
                          for a in answers])
    check_close("probabilities of classes", probs, logits.softmax(-1))


def check_fill(qkv, folder, model, tokenizer, rng, text):
    """The three likeliest tokens of two blanks, and their probabilities."""
    words = [w for w in text.split() if w.isalpha()]
    for _ in range(5):
        row = rng.choices(words, k=6)
        row[1] = row[4] = tokenizer.mask_token
        batch = tokenizer(" ".join(row), return_tensors="pt")
        with torch.no_grad():
            p = model(**batch).logits[0][batch["input_ids"][0] == tokenizer.mask_token_id]
        top = p.softmax(-1).topk(3)
        made = [json.loads(line)["fills"] for line in qkv.run(
            "fill", folder, " ".join(row), "--top-k", 3, "--json").splitlines()]
        tokens = [[f["token"] for f in blank] for blank in made]
        expected = [[tokenizer.decode([i]) for i in ids] for ids in top.indices.tolist()]
        check("fills", tokens == expected, f"{tokens[0]}")
        check_close("probabilities of fills", torch.tensor(
            [[f["prob"] for f in blank] for blank in made]), top.values)


def trained(qkv, paths, scratch):
    rng = random.Random(7)
    text = "".join(open(p, encoding="utf-8").read() for p in paths)
    data, labelled = write(scratch, "data.txt", text), write_labelled(scratch, rng, text)
    quick = ["--model", "nano", "--steps", 20, "--length", 64]
    for kind, mlm, classify in TRAINED:
        masked, classifier = (os.path.join(scratch, kind + part) for part in ("-mlm", "-classes"))
        print(f"bert-trained: mlm, {kind} {' '.join(mlm)}")
        qkv.run("train", "mlm", "--data", data, "--out", masked, "--tokenizer", kind, "--vocab",
                600, *quick, *mlm)
        model = open_model(BertForMaskedLM, masked)
        check_logits(qkv, masked, model, rng)
        check_fill(qkv, masked, model, check_tokenizer(qkv, masked, rng, AutoTokenizer), rng, text)
        for name, init in ("from nothing", ["--tokenizer", kind, "--model", "nano"]), (
                "--init", ["--init", masked]):
            print(f"bert-trained: classify, {kind} {name} {' '.join(classify)}")
            shutil.rmtree(classifier, ignore_errors=True)
            qkv.run("train", "classify", "--data", labelled, "--out", classifier, "--steps", 20,
                    "--length", 64, *init, *classify)
            model = open_model(BertForSequenceClassification, classifier)
            check_logits(qkv, classifier, model, rng)
            tokenizer = check_tokenizer(qkv, classifier, rng, AutoTokenizer)
            check_classes(qkv, classifier, model, tokenizer, labelled)


# ---- made by transformers  ---------------------------------------------

WORDS = ("the of and to in a is that for it as was with be by on not he his but at are this "
         "have from or had an they which one you were her all she there would their we him "
         "been has when who will more no if out so said what up its about into than them can "
         "only other new some could time these two may then do first any my now such like "
         "our over man me even most unaffable naive eleve angstrom hello world don ll s m "
         "int main void").split()


def words_of(vocab):
    """BERT's special tokens, characters, words, and made-up tokens up to the number."""
    known = {c for part in PARTS + BERT_PARTS for c in part.lower() if not c.isspace()}
    characters = sorted(c for c in known if c.isprintable())
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += list(dict.fromkeys([*"abcdefghijklmnopqrstuvwxyz", *characters, *WORDS]))
    tokens += ["##" + c for c in "abcdefghijklmnopqrstuvwxyz"]
    tokens += [f"[unused{i}]" for i in range(vocab - len(tokens))]
    return tokens[:vocab]


SMALL = {"vocab_size": 400, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 80, "max_position_embeddings": 40}
LABELS = {"id2label": {0: "sad", 1: "so-so", 2: "very happy"},
          "label2id": {"sad": 0, "so-so": 1, "very happy": 2}}
# Name, architecture, configuration, (how it is converted ..)
MADE = [
    ("masked", BertForMaskedLM, SMALL, [("f32", 0, torch.float32), ("f16", 0, torch.float16),
                                        ("bf16", 1, torch.bfloat16)]),
    ("masked, relu, three types, no dropout", BertForMaskedLM,
     SMALL | {"hidden_act": "relu", "type_vocab_size": 3, "hidden_dropout_prob": 0.0,
              "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-5, "pad_token_id": 9},
     [("f32", 0, torch.float32)]),
    ("classifier", BertForSequenceClassification, SMALL | LABELS, [("f32", 0, torch.float32)]),
    ("classifier, gelu_new, dropout", BertForSequenceClassification,
     SMALL | {"hidden_act": "gelu_new", "classifier_dropout": 0.3, "num_labels": 5},
     [("f32", 0, torch.float32)]),
    ("BERT-base masked", BertForMaskedLM, {}, [("f32", 0, torch.float32),
                                               ("bf16", 100, torch.bfloat16)]),
    ("BERT-base classifier", BertForSequenceClassification, LABELS, [("f32", 0, torch.float32)]),
]


def make(scratch, name, maker, fields):
    torch.manual_seed(7)
    folder = empty_folder(scratch, "made")
    model = maker(BertConfig(**fields))
    for p in model.parameters(): # biases and norms at their first values would hide mistakes
        if p.ndim == 1:
            p.data += 0.1 * torch.randn_like(p)
    print(f"bert-made: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
    write(folder, "vocab.txt", "".join(w + "\n" for w in words_of(model.config.vocab_size)))
    return folder, model.eval()


def check_config(folder, out):
    check_same_config(BertConfig, folder, out, {"architectures", "initializer_range"})
    names = [json.load(open(os.path.join(f, "config.json")))["architectures"] for f in
             (folder, out)]
    check("the same architecture", names[0] == names[1], str(names[1]))


def made(qkv, _, scratch):
    rng = random.Random(7)
    for name, maker, fields, conversions in MADE:
        folder, model = make(scratch, name, maker, fields)
        model.save_pretrained(folder)
        check_logits(qkv, folder, model, rng)
        check_tokenizer(qkv, folder, rng, BertTokenizerFast)
        for conversion in conversions:
            out = convert(qkv, folder, scratch, *conversion)
            check_logits(qkv, out, open_model(maker, out, dtype=torch.float32), rng)
            check_config(folder, out)
            check_tokenizer(qkv, out, rng, AutoTokenizer)
    old_files(qkv, scratch, rng)


def old_files(qkv, scratch, rng):
    """pytorch_model.bin of a model with both heads, in the first BERT's names."""
    folder, model = make(scratch, "pytorch_model.bin with both heads, gamma and beta, position_ids",
                         BertForPreTraining, SMALL)
    model.config.architectures = ["BertForPreTraining"]
    model.config.save_pretrained(folder)
    tensors = {k.replace("LayerNorm.weight", "LayerNorm.gamma")
               .replace("LayerNorm.bias", "LayerNorm.beta"): v
               for k, v in model.state_dict().items()}
    tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]
    torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))
    converted, out = os.path.join(scratch, "from-bin"), os.path.join(scratch, "from-bin-2")
    qkv.run("convert", os.path.join(folder, "pytorch_model.bin"), converted)
    qkv.run("convert", converted, out)
    masked = open_model(BertForMaskedLM, out)
    check_logits(qkv, out, masked, rng)
    with torch.no_grad():
        ids = torch.tensor(np.arange(30)[None])
        check_close("logits of the model before", masked(ids).logits,
                    model(ids).prediction_logits)


# ---- RoBERTa, DistilBERT, MiniLM  ---------------------------------------------

ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1,
           "layer_norm_eps": 1e-5}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
KIN = [
    ("RoBERTa-base masked", RobertaForMaskedLM, RobertaConfig(**ROBERTA)),
    ("RoBERTa-base classifier", RobertaForSequenceClassification,
     RobertaConfig(**ROBERTA, **LABELS)),
    ("RoBERTa-base encoder", RobertaModel, RobertaConfig(**ROBERTA)),
    ("DistilBERT-base masked", DistilBertForMaskedLM, DistilBertConfig()),
    ("DistilBERT-base classifier", DistilBertForSequenceClassification,
     DistilBertConfig(**LABELS)),
    ("DistilBERT-base encoder", DistilBertModel, DistilBertConfig()),
    ("MiniLM-L6", BertModel, BertConfig(**MINILM)),
    ("MiniLM-L6 without a pooler", lambda c: BertModel(c, add_pooling_layer=False),
     BertConfig(**MINILM)),
]


def check_kin(qkv, folder, model, rng):
    """Logits, or states of an encoder, of a padded batch without the padding token's id in texts,
    which RoBERTa gives no position of its own."""
    c, length, lengths = model.config, 200, [200, 13, 150]
    ids = torch.tensor([[rng.randrange(10, c.vocab_size) for _ in range(length)]
                        for _ in lengths])
    mask = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        found = model(input_ids=ids.masked_fill(~mask, c.pad_token_id), attention_mask=mask.long())
    with Tape(qkv.library, folder) as t:
        hidden = t.call("qkv_bert_hidden", ctypes.byref(BertInput(
            t.ids(ids), None, 0, None, t.lengths(lengths))))
        if "logits" not in found:
            expected = found.last_hidden_state[mask]
            got = t.read(hidden, *found.last_hidden_state.shape)[mask]
        elif found.logits.ndim == 2:
            expected = found.logits
            rows = t.ids([i * length for i in range(len(lengths))])
            got = t.read(t.call("qkv_bert_class_logits", hidden, rows), *expected.shape)
        else:
            expected = found.logits[mask]
            rows = t.ids(mask.flatten().nonzero()[:, 0].tolist())
            got = t.read(t.call("qkv_bert_word_logits", hidden, rows), *expected.shape)
    check_close(f"{tuple(expected.shape)} of a padded batch", got, expected)


def kin(qkv, _, scratch):
    rng = random.Random(7)
    for name, maker, config in KIN:
        torch.manual_seed(7)
        folder = empty_folder(scratch, "made")
        model = maker(config).eval()
        for p in model.parameters():
            if p.ndim == 1:
                p.data += 0.1 * torch.randn_like(p)
        print(f"bert-kin: {name}, {sum(p.numel() for p in model.parameters()):,} parameters")
        model.save_pretrained(folder)
        check_kin(qkv, folder, model, rng)
        out = convert(qkv, folder, scratch, "f32", 0, torch.float32)
        check_kin(qkv, out, type(model).from_pretrained(out).eval(), rng)
