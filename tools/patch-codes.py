#!/usr/bin/env python3
"""patch-codes.py - what codes of images are worth without a network: k-means of raw patches.
Needs Pillow and NumPy.

    patch-codes.py PATCH CODES TRAIN JUDGED

Finds CODES mean patches of PATCH x PATCH pixels in the images of the folder TRAIN, exchanges
each patch of those in JUDGED for the nearest of them, and says how far off that is, in dB. Over
white where an image is transparent."""

import glob
import sys

import numpy
from PIL import Image

ROUNDS, MOST, SEED = 40, 200000, 0


def patches(folder, side):
    found = []
    for path in sorted(glob.glob(f"{folder}/**/*.*", recursive=True)):
        image = Image.open(path).convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image)
        a = numpy.asarray(white.convert("RGB"), dtype=numpy.float32)
        rows, columns = a.shape[0] // side, a.shape[1] // side
        a = a.reshape(rows, side, columns, side, 3).transpose(0, 2, 1, 3, 4)
        found.append(a.reshape(rows * columns, side * side * 3))
    return numpy.concatenate(found)


def nearest(rows, codes, step=8192):
    squares = (codes ** 2).sum(1)
    return numpy.concatenate([(squares - 2 * rows[i:i + step] @ codes.T).argmin(1)
                              for i in range(0, len(rows), step)])


def k_means(rows, count):
    random = numpy.random.default_rng(SEED)
    rows = rows[random.permutation(len(rows))[:MOST]]
    codes = rows[:count].copy()
    for _ in range(ROUNDS):
        which = nearest(rows, codes)
        for k in range(count):
            mine = rows[which == k]
            codes[k] = mine.mean(0) if len(mine) else rows[random.integers(len(rows))]
    return codes


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    side, count = int(sys.argv[1]), int(sys.argv[2])
    codes = k_means(patches(sys.argv[3], side), count)
    evaluated = patches(sys.argv[4], side)
    which = nearest(evaluated, codes)
    error = ((evaluated - codes[which]) ** 2).mean()
    print(f"{10 * numpy.log10(255 ** 2 / error):.2f} dB, {len(set(which))} of {count} codes used")


main()
