#!/usr/bin/env python3
"""Makes tests/golden/score/ with sacrebleu: what qkv's BLEU and chrF must equal.

    python3 tools/make-golden/score.py

hyp.txt, ref.txt    pairs of lines, made up here
scores.safetensors  for each of 13a, tok, chrf, and the same in lower case (.lc):
                    NAME.pair, every pair's score by itself; NAME.chunk, of ten pairs each;
                    NAME.all, of all pairs, and for BLEU what it is made of
tok is multi-bleu's figure: no tokenizer, no smoothing.
"""
import os
import random

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from safetensors.numpy import save_file

OUT = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "golden", "score")
PAIRS, CHUNK = 2200, 10

SENTENCES = """
Ein Mann mit einem orangefarbenen Helm repariert das Dach eines alten Hauses.
Two small dogs chase a red ball across the wet grass.
Eine Frau in Grün verkauft auf dem Markt Äpfel, Birnen und Nüsse.
The children's choir sings in front of the town hall, and nobody listens.
Drei Jungen springen gleichzeitig ins Wasser; der vierte schaut zu.
A cyclist waits at the traffic light - it has been red for 2.5 minutes.
Zwei Arbeiter tragen eine 3,50 m lange Leiter die Straße entlang.
"Look," says the girl, "the train to St. Gallen leaves at 10:45!"
Ein älteres Paar sitzt auf einer Bank am Fluss und teilt sich ein Eis.
A black-and-white cat sleeps on the keyboard of someone's laptop (again).
Der Koch würzt die Suppe mit Salz & Pfeffer für ca. 1.000 Gäste.
Snow falls on the empty stands of the football ground.
Ein Straßenmusiker spielt Geige, während die Leute vorbeieilen.
Somebody has parked a blue van in front of the fire station.
Die Läuferin mit der Nummer 42 überquert als Erste die Ziellinie.
A boy holds up a fish that's nearly as long as he is tall.
""".strip().split("\n")

MARKS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + [
    "...", "--", "-", ".", ",", ".", ",", "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;",
    "&amp;quot;", "<skipped>", "<skip<skipped>ped>", "&", "«", "»", "„", "“", "—", "…", "。", "、",
    "¿", "€", "°"]
NUMBERS = [
    "0", "7", "1.5", "1,5", "1.", ",5", ".5", "10-20", "-3", "3-", "1.2.3", "1,000.00", "2-x",
    "x-2", "٣", "٣.٤", "½", "Ⅷ", "１２", "1'000", "a.b", "a,b", "U.S.A.", "e.g.", "..5", "5..",
    "5.,5", "a-b", "4-,", "-.-"]
WORDS = [
    "漢字", "日本語のテスト", "かな", "한국어", "e\u0301te\u0301", "n\u0303", "\u0300", "नमस्ते", "مرحبا",
    "שלום", "\U0001f600", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f",
    "\U0001f44d\U0001f3fd", "STRASSE", "Straße", "ẞ", "ΟΔΥΣΣΕΥΣ", "ὈΔΥΣΣΕΎΣ", "ΣΑΣ", "Σ", "ΑΣ.",
    "ΑΣ.Α", "Α'Σ", "ΑΣ\u0301Β", "İstanbul", "I", "ı", "Ǆ", "ǅ", "Ⅷ", "Ⓐ", "K", "Å", "Ω", "ᲀ", "Ꭰ",
    "ꭰ", "\U00010400", "\U0001e900", "\ufeff", "\u200b", "\u180e", "\u00ad", "\x00", "\x01",
    "\x7f", "\uffff", "\U0010ffff"]
BLANKS = [" ", "  ", "\t", "\u00a0", "\u2009", "\u202f", "\u3000", "\u2028", "\x85", "\x1c", "\x1f",
          "\x0b", "\x0c", "\r", "\u1680", "\u205f", "\u2000"]


def odd_piece(rng):
    if rng.random() < 0.1:
        low, high = rng.choice([(32, 0x17F), (0x180, 0xD7FF), (0xE000, 0x323AF)])
        return chr(rng.randint(low, high))
    return rng.choice(rng.choice([MARKS, NUMBERS, WORDS, BLANKS]))


def odd_line(rng):
    return "".join(odd_piece(rng) + (" " if rng.random() < 0.4 else "")
                   for _ in range(rng.randint(0, 12)))


def change(rng, line):
    """What a translator might have written instead: words lost, swapped, doubled, misspelt."""
    words = line.split(" ")
    for _ in range(rng.randint(0, 3)):
        i = rng.randrange(len(words))
        kind = rng.randrange(8)
        if kind == 0 and len(words) > 1:
            del words[i]
        elif kind == 1:
            words.insert(i, words[i])
        elif kind == 2:
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif kind == 3:
            words[i] = words[i].swapcase()
        elif kind == 4:
            words[i] = words[i].upper()
        elif kind == 5:
            words[i] += odd_piece(rng)
        elif kind == 6:
            words[i] = words[i][1:]
        else:
            words.insert(i, odd_piece(rng))
    return " ".join(words)


def make_pair(rng):
    kind = rng.random()
    if kind < 0.45:
        words = rng.choice(SENTENCES).split(" ")
        start = rng.randint(0, len(words) - 1) if rng.random() < 0.7 else 0
        ref = " ".join(words[start:start + rng.randint(1, 12)])
        hyp = change(rng, ref)
    elif kind < 0.8:
        ref = odd_line(rng)
        hyp = change(rng, ref)
    elif kind < 0.9:  # few words, often: clipped counts
        ref, hyp = (" ".join(rng.choices("abcAB.", k=rng.randint(0, 12))) for _ in range(2))
    else:
        ref, hyp = odd_line(rng), odd_line(rng)
    if rng.random() < 0.05:
        hyp = rng.choice(["", " ", "\u00a0", ".", ",", "...", "!?"])
    if rng.random() < 0.05:
        ref = rng.choice(["", "\t", "-", ". . .", "&quot;"])
    ends = rng.choice(["", "", "", "\r", " ", "\u2009"]), rng.choice(["", "", "", "\r", " ."])
    return tuple((s + e).replace("\n", "") for s, e in zip((hyp, ref), ends))


def measures():
    for lc in (False, True):
        end = ".lc" if lc else ""
        yield "13a" + end, BLEU(lowercase=lc)
        yield "tok" + end, BLEU(lowercase=lc, tokenize="none", smooth_method="none", force=True)
        yield "chrf" + end, CHRF(lowercase=lc)


def details(score):
    if not hasattr(score, "precisions"):
        return [score.score]
    return [score.score, *score.precisions, score.bp, score.sys_len, score.ref_len,
            *score.counts, *score.totals]


def main():
    rng = random.Random(41)
    pairs = [make_pair(rng) for _ in range(PAIRS)]
    hyps, refs = zip(*pairs)
    out = {}
    for name, metric in measures():
        def score(first, count):
            return metric.corpus_score(hyps[first:first + count], [refs[first:first + count]])
        out[name + ".pair"] = np.array([score(i, 1).score for i in range(len(pairs))])
        out[name + ".chunk"] = np.array([score(i, CHUNK).score
                                         for i in range(0, len(pairs), CHUNK)])
        out[name + ".all"] = np.array(details(score(0, len(pairs))), dtype=np.float64)
    os.makedirs(OUT, exist_ok=True)
    for name, lines in (("hyp.txt", hyps), ("ref.txt", refs)):
        with open(os.path.join(OUT, name), "w", encoding="utf-8", newline="\n") as f:
            f.writelines(line + "\n" for line in lines)
    save_file(out, os.path.join(OUT, "scores.safetensors"))


if __name__ == "__main__":
    main()
