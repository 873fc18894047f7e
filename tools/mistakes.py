#!/usr/bin/env python3
"""mistakes.py - where a classifier of images is wrong, and what that looks like. Needs Pillow;
for an idx file NumPy.

    mistakes.py QKV RUN IMAGES OUT.png

Asks the program QKV what the model in the directory RUN sees on IMAGES: a folder with a folder
for each class, or an idx file with its labels beside it. Says which share it knows of each class
and which classes it takes for which others most often, and draws the 24 images that it was surest
about and wrong, naming each: what it is, what was said."""

import collections
import glob
import json
import os
import subprocess
import sys
import tempfile

from PIL import Image

AT_ONCE, SHOWN, COLUMNS, ZOOM = 500, 24, 8, 2


def unpack(path, folder):
    import numpy
    labels = path.replace("images", "labels").replace("idx3", "idx1")
    images = numpy.fromfile(path, dtype=numpy.uint8)
    high, wide = (int.from_bytes(images[at:at + 4].tobytes(), "big") for at in (8, 12))
    images = images[16:].reshape(-1, high, wide)
    for i, label in enumerate(numpy.fromfile(labels, dtype=numpy.uint8)[8:]):
        os.makedirs(f"{folder}/{label}", exist_ok=True)
        Image.fromarray(images[i]).save(f"{folder}/{label}/{i:06}.png")


def ask(qkv, run, folder):
    files = sorted(glob.glob(f"{folder}/*/*"))
    for i in range(0, len(files), AT_ONCE):
        said = subprocess.run([qkv, "classify", run, *files[i:i + AT_ONCE], "--json", "--quiet"],
                              check=True, capture_output=True, text=True).stdout
        for line in said.splitlines():
            answer = json.loads(line)
            true = os.path.basename(os.path.dirname(answer["file"]))
            yield answer["probs"][answer["label"]], true, answer["label"], answer["file"]


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    qkv, run, images, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if os.path.isfile(images):
            unpack(images, folder)
            images = folder
        answers = list(ask(qkv, run, images))
        wrong = sorted((a for a in answers if a[1] != a[2]), reverse=True)
        sheet = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sheet.py")
        subprocess.run([sys.executable, sheet, out, str(COLUMNS), str(ZOOM),
                        *[a[3] for a in wrong[:SHOWN]]], check=True)
    of_class = collections.Counter(a[1] for a in answers)
    missed = collections.Counter(a[1] for a in wrong)
    for name, count in sorted(of_class.items()):
        print(f"{name}: {100 * (1 - missed[name] / count):.1f} % of {count}")
    print(f"all: {100 * (1 - len(wrong) / len(answers)):.2f} % of {len(answers)}")
    for (true, said), count in collections.Counter(a[1:3] for a in wrong).most_common(8):
        print(f"{true} for {said}: {count} times")
    for sure, true, said, file in wrong[:SHOWN]:
        print(f"{os.path.basename(file)}: {true}, it said {said} ({100 * sure:.1f} %)")


main()
