#!/usr/bin/env python3
"""coded.py - images and, in the row below, what comes back of their codes. Needs Pillow.

    coded.py QKV RUN COLUMNS ZOOM OUT.png FILE...

QKV is the program, RUN the directory of a model of train vqgan. Over white where an image is
transparent."""

import os
import subprocess
import sys
import tempfile


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    qkv, run, columns, zoom, out, *files = sys.argv[1:]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, len(files), int(columns)):
            row, below = files[first:first + int(columns)], []
            for n, file in enumerate(row, first):
                codes, back = f"{folder}/{n}.npy", f"{folder}/{n}.png"
                subprocess.run([qkv, "encode", run, file, "--out", codes, "--quiet"], check=True)
                subprocess.run([qkv, "decode", run, codes, "--out", back, "--quiet"], check=True)
                below.append(back)
            rows += row + below
        sheet = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sheet.py")
        subprocess.run([sys.executable, sheet, out, columns, zoom, *rows], check=True)


main()
