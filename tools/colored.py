#!/usr/bin/env python3
"""colored.py - images as a colouring model sees and paints them. Needs Pillow.

    colored.py QKV RUN CELL ZOOM OUT.png FILE...

A column for each FILE, from the top: grey; what the program QKV makes of it with the model in the
directory RUN; the same with the true colours of 10 cells of CELL x CELL pixels for hints, drawn at
random, the same ones each time; the truth, over white where it is transparent."""

import os
import random
import subprocess
import sys
import tempfile

from PIL import Image

HINTS = 10


def read(path):
    image = Image.open(path).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    return white.convert("RGB")


def draw_hints(image, cell, rng):
    for _ in range(HINTS):
        x = cell * rng.randrange(image.width // cell)
        y = cell * rng.randrange(image.height // cell)
        part = image.crop((x, y, x + cell, y + cell)).resize((1, 1), Image.BOX)
        yield from ("--hint", "%d,%d,#%02x%02x%02x" % (x, y, *part.getpixel((0, 0))))


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    qkv, run, cell, zoom, out, *files = sys.argv[1:]
    rows = [[], [], [], []]
    with tempfile.TemporaryDirectory() as folder:
        for n, file in enumerate(files):
            names = [f"{folder}/{n}-{row}.png" for row in range(len(rows))]
            image = read(file)
            image.convert("L").save(names[0])
            image.save(names[3])
            hints = list(draw_hints(image, int(cell), random.Random(n)))
            for name, given in ((names[1], []), (names[2], hints)):
                subprocess.run([qkv, "colorize", run, file, *given, "--out", name, "--quiet"],
                               check=True, stdout=subprocess.DEVNULL)
            for row, name in zip(rows, names):
                row.append(name)
        sheet = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sheet.py")
        subprocess.run([sys.executable, sheet, out, str(len(files)), zoom, *sum(rows, [])],
                       check=True)


main()
