#!/usr/bin/env python3
"""leave-out-copies.py - images to learn from, without copies of those that evaluate. Needs Pillow
and NumPy.

    leave-out-copies.py ARCHIVE.tar JUDGED N OUT

Unpacks the archive's images of the size of those in the folder JUDGED, but leaves out every one
that is like one of JUDGED's last N (in the order of their names): whose pixels differ by less than
LIKE levels (root of the mean square), as a JPEG differs from the lossless image. Says how far the
most unlike copy and the likest of the others are."""

import glob
import io
import os
import sys
import tarfile

import numpy
from PIL import Image

LIKE = 16


def pixels(image):
    return numpy.asarray(image.convert("RGB"), dtype=numpy.float32).ravel()


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    archive, folder, count, out = sys.argv[1:]
    names = sorted(glob.glob(f"{folder}/*"))[-int(count):]
    size = Image.open(names[0]).size
    evaluated = numpy.stack([pixels(Image.open(name)) for name in names])
    squares = (evaluated ** 2).sum(1)
    copies, others, found = 0.0, 255.0, set()
    kept = left_out = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isfile():
                continue
            data = tar.extractfile(member).read()
            image = Image.open(io.BytesIO(data))
            if image.size != size:
                continue
            x = pixels(image)
            distances = squares - 2 * (evaluated @ x) + x @ x
            nearest = int(distances.argmin())
            unlike = (max(float(distances[nearest]), 0) / x.size) ** 0.5
            if unlike < LIKE:
                copies = max(copies, unlike)
                found.add(nearest)
                left_out += 1
                continue
            others = min(others, unlike)
            path = os.path.join(out, *member.name.split("/")[-2:])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
            kept += 1
    print(f"{kept} images kept, the likest {others:.1f} levels away; {left_out} left out, "
          f"copies of {len(found)} of {len(names)}, the most unlike {copies:.1f} levels away")


main()
