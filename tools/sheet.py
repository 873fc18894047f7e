#!/usr/bin/env python3
"""sheet.py - images side by side, for documents. Needs Pillow.

    sheet.py OUT.png COLUMNS ZOOM FILE...

Row by row, every pixel ZOOM x ZOOM; images with transparent parts over white."""

import sys

from PIL import Image

GAP = 3


def load(path, zoom):
    image = Image.open(path).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    size = (zoom * image.width, zoom * image.height)
    return white.convert("RGB").resize(size, Image.NEAREST)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, columns, zoom = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    images = [load(path, zoom) for path in sys.argv[4:]]
    wide = max(image.width for image in images) + GAP
    high = max(image.height for image in images) + GAP
    rows = (len(images) + columns - 1) // columns
    sheet = Image.new("RGB", (columns * wide - GAP, rows * high - GAP), "white")
    for i, image in enumerate(images):
        sheet.paste(image, (i % columns * wide, i // columns * high))
    sheet.save(out, optimize=True)


main()
