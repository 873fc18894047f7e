#!/usr/bin/env python3
"""check-tensorboard.py - TensorBoard's own EventAccumulator reads what runs wrote: every scalar,
image and text is equal to metrics.jsonl, across a kill -9 and a resume.

    python tools/check-tensorboard.py --build build     trains a GPT and an image classifier
    python tools/check-tensorboard.py --run DIR         checks a run that is there

Needs the package tensorboard. Not part of `make test`, which has its own reader of the format.
"""
import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

import numpy
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

EVENTS = "train/events.out.tfevents.qkv"
GROUPS = {"step": "train"}  # kind of line -> what its tags begin with; others: the kind


def lines_of(directory):
    with open(os.path.join(directory, "train/metrics.jsonl"), "rb") as file:
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def expected_of(directory):
    """tag -> [(step, value)], a value being a float, bytes of an image or a text."""
    out = {}
    for line in lines_of(directory):
        if line["kind"] == "sample":
            value = line.get("text")
            if value is None:
                with open(os.path.join(directory, "train", line["file"]), "rb") as file:
                    value = file.read()
            out.setdefault("samples/" + line["name"], []).append((line["step"], value))
            continue
        group = GROUPS.get(line["kind"], line["kind"])
        for key, value in line.items():
            if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
                if key not in ("step", "seconds"):
                    value = float(numpy.float32(value))
                    out.setdefault(f"{group}/{key}", []).append((line["step"], value))
    return out


def value_of(array):
    """What a tensor holds; some versions make images [width, height, file]."""
    if array.dtype != object:
        return float(array)
    if array.size == 1:
        return array.reshape(-1)[0].decode()
    return bytes(array.reshape(-1)[2])


def found_of(directory):
    guidance = {"scalars": 0, "tensors": 0, "images": 0}
    events = event_accumulator.EventAccumulator(os.path.join(directory, EVENTS), guidance)
    events.Reload()
    out = {}
    for tag in events.Tags()["tensors"]:
        out[tag] = [(e.step, value_of(tensor_util.make_ndarray(e.tensor_proto)))
                    for e in events.Tensors(tag)]
    for tag in events.Tags()["images"]:
        out[tag] = [(e.step, e.encoded_image_string) for e in events.Images(tag)]
    for tag in events.Tags()["scalars"]:
        out[tag] = [(e.step, e.value) for e in events.Scalars(tag)]
    return out


def compare(directory, what):
    expected, found = expected_of(directory), found_of(directory)
    bad = sorted(set(expected) ^ set(found))
    for tag in expected:
        if tag in found and expected[tag] != found[tag]:
            bad.append(tag)
    steps = [line["step"] for line in lines_of(directory) if line["kind"] == "step"]
    if steps != sorted(set(steps)):
        bad.append("steps are repeated")
    kinds = [type(v[0][1]).__name__ for v in expected.values()]
    counts = ", ".join(f"{kinds.count(k)} {n}" for k, n in
                       (("float", "scalars"), ("bytes", "images"), ("str", "texts")))
    values = sum(len(v) for v in expected.values())
    verdict = "FAILED" if bad else "ok"
    print(f"{verdict}  {what}: {counts}, {values} values {bad[:5] if bad else ''}")
    return not bad


def killed_and_resumed(qkv, work, name, arguments):
    """Trains, is killed in the middle, goes on."""
    out = os.path.join(work, name)
    command = [qkv, "train", *arguments, "--out", out, "--threads", "1", "--quiet"]
    child = subprocess.Popen(command)
    log = os.path.join(out, "train/metrics.jsonl")
    while child.poll() is None:
        if os.path.exists(log) and any(x["step"] >= 30 for x in lines_of(out)):
            break
        time.sleep(0.005)
    if child.poll() is not None:
        sys.exit(f"{name}: ended before it could be killed")
    child.send_signal(signal.SIGKILL)
    child.wait()
    good = compare(out, f"{name}, killed at step {max(x['step'] for x in lines_of(out))}")
    subprocess.run(command + ["--resume"], check=True)
    return compare(out, f"{name}, resumed to the end") and good


def write_idx(path, kind, shape, data):
    with open(path, "wb") as file:
        file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape) + data)


def make_data(work):
    text = os.path.join(work, "text")
    r = random.Random(1)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran", "far"]
    with open(text, "w", encoding="utf-8") as file:
        file.write(" ".join(r.choice(words) for _ in range(8000)))
    n, side = 300, 16
    labels = bytes(i % 3 for i in range(n))
    images = bytes((80 * c + r.randrange(40)) % 256 for c in labels for _ in range(side * side))
    write_idx(os.path.join(work, "train-images-idx3-ubyte"), 8, (n, side, side), images)
    write_idx(os.path.join(work, "train-labels-idx1-ubyte"), 8, (n,), labels)
    return text, os.path.join(work, "train-images-idx3-ubyte")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--run")
    options = parser.parse_args()
    if options.run:
        sys.exit(0 if compare(options.run, options.run) else 1)
    qkv = os.path.join(os.path.abspath(options.build), "qkv")
    with tempfile.TemporaryDirectory() as work:
        text, images = make_data(work)
        often = ["--steps", "400", "--eval-every", "20", "--save-every", "17"]
        runs = {
            "lm": ["lm", "--data", text, "--tokenizer", "char", "--model", "nano", *often],
            "classify": ["classify", "--data", images, "--smoothing", "0.1", "--batch", "16",
                         *often],
        }
        good = [killed_and_resumed(qkv, work, name, x) for name, x in runs.items()]
    sys.exit(0 if all(good) else 1)


main()
