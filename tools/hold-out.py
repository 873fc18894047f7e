#!/usr/bin/env python3
"""hold-out.py - images in two parts, one to learn from and one that evaluates once, at the end.

    hold-out.py last N FOLDER OUT       the last N, in the order of their names, evaluate
    hold-out.py name N FOLDER OUT       about N: groups whose names agree up to the first - or .
    hold-out.py class N ARCHIVE OUT     the last N of each class of a .tar; folders are classes
    hold-out.py idx N IMAGES.gz OUT     the last N of an idx file, and of the labels beside it

OUT gets train/ and test/, of an idx file train-images-idx3-ubyte, test-images-idx3-ubyte and
their labels. The same parts each time, whatever the machine."""

import glob
import gzip
import hashlib
import os
import re
import shutil
import struct
import sys
import tarfile


def put(out, part, name, data):
    path = os.path.join(out, part, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def images_of(folder):
    return sorted(path for path in glob.glob(f"{folder}/*") if path.endswith((".png", ".jpg")))


def last(count, folder, out):
    paths = images_of(folder)
    for i, path in enumerate(paths):
        part = "test" if i >= len(paths) - count else "train"
        os.makedirs(f"{out}/{part}", exist_ok=True)
        shutil.copy(path, f"{out}/{part}")


def name(count, folder, out):
    groups = {}
    for path in images_of(folder):
        groups.setdefault(re.split("[-.]", os.path.basename(path))[0], []).append(path)
    held = 0
    for group in sorted(groups, key=lambda g: hashlib.sha256(g.encode()).digest()):
        fits = held + len(groups[group]) <= count
        held += len(groups[group]) if fits else 0
        for path in groups[group]:
            part = "test" if fits else "train"
            os.makedirs(f"{out}/{part}", exist_ok=True)
            shutil.copy(path, f"{out}/{part}")


def class_(count, archive, out):
    classes = {}
    with tarfile.open(archive) as tar:
        members = sorted((m for m in tar if m.isfile()), key=lambda m: m.name)
        for member in members:
            classes.setdefault(os.path.basename(os.path.dirname(member.name)), []).append(member)
        for label, files in classes.items():
            for i, member in enumerate(files):
                part = "test" if i >= len(files) - count else "train"
                put(out, part, f"{label}/{os.path.basename(member.name)}",
                    tar.extractfile(member).read())


def idx(count, images, out):
    labels = images.replace("images", "labels").replace("idx3", "idx1")
    for path in (images, labels):
        with gzip.open(path) as file:
            data = file.read()
        head = 4 + 4 * data[3]
        total, = struct.unpack(">I", data[4:8])
        each = (len(data) - head) // total
        cut = head + (total - count) * each
        kind = re.search("(images|labels)-idx[0-9]-ubyte", path).group(0)
        for part, n, body in (("train", total - count, data[head:cut]),
                              ("test", count, data[cut:])):
            put(out, "", f"{part}-{kind}", data[:4] + struct.pack(">I", n) + data[8:head] + body)


WAYS = {"last": last, "name": name, "class": class_, "idx": idx}
if len(sys.argv) != 5 or sys.argv[1] not in WAYS:
    sys.exit(__doc__)
WAYS[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
