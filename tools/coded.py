#!/usr/bin/env python3
"""coded.py - pictures and, below each, what comes back of its codes, for documents. Needs Pillow.

    coded.py QKV RUN COLUMNS ZOOM OUT.png PICTURE...

Over white where a picture is transparent."""

import subprocess
import sys
import tempfile

from PIL import Image

GAP = 3


def decoded(qkv, run, path, folder):
    codes, back = f"{folder}/codes.npy", f"{folder}/back.png"
    subprocess.run([qkv, "encode", run, path, "--out", codes, "--quiet"], check=True)
    subprocess.run([qkv, "decode", run, codes, "--out", back, "--quiet"], check=True)
    return Image.open(back).convert("RGB")


def over_white(path):
    image = Image.open(path).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    return white.convert("RGB")


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    qkv, run, columns, zoom, out = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(over_white(path), decoded(qkv, run, path, folder)) for path in sys.argv[6:]]
    wide, high = (zoom * side for side in pairs[0][0].size)
    rows = (len(pairs) + columns - 1) // columns
    sheet = Image.new("RGB", (columns * (wide + GAP) - GAP, rows * (2 * high + 3 * GAP) - 3 * GAP),
                      "white")
    for i, pair in enumerate(pairs):
        for k, image in enumerate(pair):
            place = (i % columns * (wide + GAP), i // columns * (2 * high + 3 * GAP) + k * high)
            sheet.paste(image.resize((wide, high), Image.NEAREST), place)
    sheet.save(out, optimize=True)


main()
