#!/usr/bin/env python3
"""Sentiment of single sentences (SST-2) from 6,220 of its 6,920 training sentences alone, evaluated
on the other 700, ten times over: a BERT from scratch, one that learnt to guess hidden words of the
same sentences first, and naive Bayes over words and pairs of neighbours.

    bench/sst2.py --data train.tsv --qkv build/qkv [--splits 10] [--jobs 2] [--out DIR]
    bench/sst2.py --data train.tsv --qkv build/qkv --tune 1400
    bench/sst2.py --data train.tsv --qkv build/qkv --only bayes,outside --outside lines.txt

The data: a line for each sentence, its label (0 or 1), a tab, the sentence. --jobs splits are done
at once, each on one thread. --out keeps the models, and a list of what was labelled wrongly. --tune
N evaluates on the last N training lines of the first split instead, which is how SETTINGS were
chosen: the evaluated lines were never looked at for that. --outside names lines of other text,
whose hidden words a BERT guesses once, before those of each split's own sentences, before the
labels; a model that --out has of it is used. Needs nothing but Python's own library.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

JUDGED = 700

# Of all trainings, and of each by name.
SETTINGS = {
    "common": "--dtype f32 --length 64 --threads 1 --quiet --json --valid-last 0",
    "scratch": "--vocab 15000 --set hidden_size=64 --set num_hidden_layers=2 "
    "--set initializer_range=0.02 --set hidden_dropout_prob=0.2 --drop-words 0.4 "
    "--smoothing 0.1 --steps 750 --lr 1e-3 --ema 0.99",
    "words": "--lines --vocab 8000 --set hidden_size=64 --set num_hidden_layers=2 "
    "--set initializer_range=0.02 --tokens 1024 --batch 1 --mask 0.2 --steps 6000 "
    "--schedule wsd --lr 2e-3 --ema 0.998",
    "outside": "--lines --vocab 15000 --set hidden_size=128 --set num_hidden_layers=3 "
    "--set num_attention_heads=4 --set intermediate_size=512 --set initializer_range=0.02 "
    "--tokens 2048 --batch 1 --mask 0.2 --steps 7945 --schedule wsd --optimizer muon --lr 6e-3 "
    "--adamw-lr-scale 0.5 --ema 0.998",
    "own": "--lines --tokens 1024 --batch 1 --mask 0.2 --steps 1500 --schedule wsd "
    "--optimizer muon --lr 2e-3 --adamw-lr-scale 0.5 --ema 0.998",
    "both": "--set hidden_dropout_prob=0.2 --drop-words 0.4 --rdrop 1 --smoothing 0.1 "
    "--steps 1000 --optimizer muon --lr 1e-3 --ema 0.99",
    "tuned": "--set hidden_dropout_prob=0.2 --drop-words 0.3 --smoothing 0.1 --steps 750 "
    "--lr 1e-3 --ema 0.99",
}


def split(lines, number):
    """Training and evaluated lines, as a function of the number alone."""
    order = list(range(len(lines)))
    random.Random(f"split {number}").shuffle(order)
    evaluated = set(order[:JUDGED])
    return ([line for i, line in enumerate(lines) if i not in evaluated],
            [line for i, line in enumerate(lines) if i in evaluated])


def naive_bayes(train, evaluated):
    """Accuracy of multinomial naive Bayes over words and bigrams, one added to every count."""
    counts, texts = {}, collections.Counter()

    def features(text):
        words = text.split()
        return words + list(zip(words, words[1:]))

    for line in train:
        label, text = line.split("\t")
        texts[label] += 1
        counts.setdefault(label, collections.Counter()).update(features(text))
    vocabulary = len(set().union(*counts.values()))
    totals = {label: sum(c.values()) + vocabulary for label, c in counts.items()}
    right = 0
    for line in evaluated:
        label, text = line.split("\t")
        scores = {
            other: math.log(texts[other])
            + sum(math.log((counts[other][f] + 1) / totals[other]) for f in features(text))
            for other in counts
        }
        right += max(scores, key=scores.get) == label
    return right / len(evaluated)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    return path


def fit(qkv, kind, name, data, out, *more):
    run([qkv, "train", kind, "--data", data, "--out", out, *SETTINGS["common"].split(),
         *SETTINGS[name].split(), *more])


class Split:
    """One split's files and models in a folder."""

    def __init__(self, qkv, folder, train, evaluated):
        os.makedirs(folder, exist_ok=True)
        self.qkv, self.folder, self.train, self.evaluated = qkv, folder, train, evaluated
        self.data = write(self.path("train.tsv"), train)
        self.text = write(self.path("train.txt"), [line.split("\t")[1] for line in train])
        self.test = write(self.path("evaluated.tsv"), evaluated)

    def path(self, name):
        return os.path.join(self.folder, name)

    def fit(self, kind, name, data, *more):
        fit(self.qkv, kind, name, data, self.path(name), *more)

    def evaluate(self, name):
        out = run([self.qkv, "eval", self.path(name), "--file", self.test, "--json",
                   "--threads", "1"])
        self.list_wrong(name)
        return json.loads(out)["accuracy"]

    def list_wrong(self, name):
        texts = write(self.path("evaluated.txt"), [line.split("\t")[1] for line in self.evaluated])
        out = run([self.qkv, "classify", self.path(name), "--file", texts, "--json",
                   "--threads", "1"])
        wrong = []
        for line, answer in zip(self.evaluated, out.splitlines()):
            label, text = line.split("\t")
            answer = json.loads(answer)
            if answer["label"] != label:
                wrong.append((answer["probs"][answer["label"]], label, text))
        write(self.path(f"wrong-{name}.tsv"),
              [f"{p:.3f}\t{label}\t{text}" for p, label, text in sorted(wrong, reverse=True)])

    def all(self, only, outside):
        found, seconds = {}, {}
        for name in only:
            start = time.monotonic()
            if name == "bayes":
                found[name] = naive_bayes(self.train, self.evaluated)
            elif name == "scratch":
                self.fit("classify", "scratch", self.data)
                found[name] = self.evaluate("scratch")
            elif name == "tuned":
                self.fit("mlm", "words", self.text)
                self.fit("classify", "tuned", self.data, "--init", self.path("words"))
                found[name] = self.evaluate("tuned")
            else:
                self.fit("mlm", "own", self.text, "--init", outside)
                self.fit("classify", "both", self.data, "--init", self.path("own"))
                found[name] = self.evaluate("both")
            seconds[name] = time.monotonic() - start
        return found, seconds


def table(results, only, seconds):
    print("\nsplit " + "".join(f"{name:>10}" for name in only))
    for i, found in enumerate(results):
        print(f"{i:5d} " + "".join(f"{100 * found[name]:10.2f}" for name in only))
    print(" mean " + "".join(
        f"{100 * statistics.mean(f[name] for f in results):10.2f}" for name in only))
    if len(results) > 1:
        print("error " + "".join(
            f"{100 * statistics.stdev(f[name] for f in results) / math.sqrt(len(results)):10.2f}"
            for name in only))
    print(f"{seconds / 60:.1f} minutes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--qkv", default="build/qkv")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="bayes,scratch,tuned")
    parser.add_argument("--tune", type=int, default=0, metavar="N")
    parser.add_argument("--outside", metavar="FILE")
    parser.add_argument("--out")
    args = parser.parse_args()
    only, start = args.only.split(","), time.monotonic()
    with open(args.data, encoding="utf-8") as file:
        lines = file.read().splitlines()
    with tempfile.TemporaryDirectory() as temporary:
        out = args.out or temporary
        outside = os.path.join(out, "outside")
        if args.outside and not os.path.exists(os.path.join(outside, "model.safetensors")):
            fit(args.qkv, "mlm", "outside", args.outside, outside)

        def one(number):
            train, evaluated = split(lines, number)
            if args.tune:
                train, evaluated = train[: -args.tune], train[-args.tune:]
            found, seconds = Split(args.qkv, os.path.join(out, str(number)), train,
                                   evaluated).all(only, outside)
            print(f"split {number}: " + ", ".join(
                f"{name} {100 * found[name]:.2f} ({seconds[name]:.0f} s)" for name in only),
                flush=True)
            return found

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(one, range(1 if args.tune else args.splits)))
    table(results, only, time.monotonic() - start)


if __name__ == "__main__":
    main()
