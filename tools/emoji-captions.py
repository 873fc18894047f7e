#!/usr/bin/env python3
"""emoji-captions.py - the Unicode names of emoji as captions, in two tables of file and caption.

    emoji-captions.py FOLDER OUT

FOLDER has images named by code points, 1f44b-1f3fd.png. OUT gets train.csv; tones.csv, held out:
of each emoji in all five skin tones one, whose other tones are in train.csv; and others.csv, a
tenth of all other images, whose names may have words that no other has; and held.csv, both. The
same rows each time, whatever the machine. Standard library only."""

import csv
import glob
import hashlib
import os
import sys
import unicodedata

TONES = dict(zip("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff",
                 ("light", "medium light", "medium", "medium dark", "dark")))
LETTER_A = 0x1f1e6  # REGIONAL INDICATOR SYMBOL LETTER A; two of them are a flag
HIDDEN = "\u200d\ufe0f\U000e007f"
TAGS = 0xe0000  # tag characters spell a flag's region


def word(c):
    if c in TONES:
        return TONES[c] + " skin"
    if LETTER_A <= ord(c) < LETTER_A + 26:
        return chr(ord("a") + ord(c) - LETTER_A)
    if TAGS <= ord(c) < TAGS + 128:
        return chr(ord(c) - TAGS)
    if c == "\u20e3":
        return "keycap"
    return unicodedata.name(c).lower()


def caption(points):
    words = [word(c) for c in points if c not in HIDDEN]
    flag = LETTER_A <= ord(points[0]) < LETTER_A + 26
    return ("flag " + " ".join(words)) if flag else ", ".join(words)


def chance(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = sys.argv[1:]
    names = [os.path.basename(path) for path in sorted(glob.glob(os.path.join(folder, "*.png")))]
    points = {name: "".join(chr(int(x, 16)) for x in name[:-4].split("-")) for name in names}
    tables = {"train": [], "tones": [], "others": [], "held": []}
    for name, text in points.items():
        base = text[:-1]
        toned = text[-1] in TONES and all(base + tone in points.values() for tone in TONES)
        if toned:
            held = list(TONES).index(text[-1]) == chance(base) % len(TONES)
        else:
            held = chance(name) % 10 == 0
        row = (name, caption(text))
        tables["train" if not held else "tones" if toned else "others"].append(row)
        if held:
            tables["held"].append(row)
    os.makedirs(out, exist_ok=True)
    for name, rows in tables.items():
        with open(os.path.join(out, name + ".csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("file", "caption"), *rows])


main()
