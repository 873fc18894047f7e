#!/usr/bin/env python3
"""make-segments.py - images and masks for docs/recipes/pixels.md. Needs Pillow.

    make-segments.py shapes OUT [COUNT]               six shapes that overlap, in colours that tell
                                                      nothing
    make-segments.py emoji OUT EMOJI PHOTOS [TIMES]   emoji with alpha over photos, each so many
                                                      times; the alpha is the mask

OUT gets images/ and masks/ to learn from, valid-images/ and valid-masks/ to evaluate on: a tenth of
the shapes; emoji whose first code point is in no other image, each twice, over the last 400
photos. Others like them, over the other photos, choose the model: choose-images/, choose-masks/.
Those to learn from are varied: turned, of other hues and lightness, over another emoji. The same
images each time, whatever the machine."""

import glob
import hashlib
import os
import random
import sys

from PIL import Image, ImageDraw

SIDE = 64
GREY = 40  # between the levels of two classes
SHAPES = 6
VALID_TIMES = 2


def save(out, name, image, mask, part):
    for folder, image in (("images", image), ("masks", mask)):
        folder = f"{out}/{part}{folder}"
        os.makedirs(folder, exist_ok=True)
        image.save(f"{folder}/{name}.png")


def outline(kind, x, y, r):
    """Polygons, the last of which is a hole; of a disc its box."""
    if kind == 1:  # square
        return [[(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)]]
    if kind == 2:  # triangle
        return [[(x, y - r), (x + r, y + r), (x - r, y + r)]]
    if kind == 3:  # diamond
        return [[(x, y - r), (x + r, y), (x, y + r), (x - r, y)]]
    t = r / 3  # cross
    return [[(x - t, y - r), (x + t, y - r), (x + t, y - t), (x + r, y - t), (x + r, y + t),
             (x + t, y + t), (x + t, y + r), (x - t, y + r), (x - t, y + t), (x - r, y + t),
             (x - r, y - t), (x - t, y - t)]]


def stamp(kind, x, y, r):
    """Where a shape is, as an image of one bit."""
    where = Image.new("1", (SIDE, SIDE))
    draw = ImageDraw.Draw(where)
    if kind in (0, 5):  # disc, ring
        draw.ellipse([x - r, y - r, x + r, y + r], fill=1)
        if kind == 5:
            draw.ellipse([x - r / 2, y - r / 2, x + r / 2, y + r / 2], fill=0)
    else:
        for polygon in outline(kind, x, y, r):
            draw.polygon(polygon, fill=1)
    return where


def shapes(out, count):
    rng = random.Random(1)

    def color():
        return tuple(rng.randrange(256) for _ in range(3))

    for i in range(count):
        image, mask = Image.new("RGB", (SIDE, SIDE), color()), Image.new("L", (SIDE, SIDE))
        for _ in range(rng.randrange(3, 7)):
            kind, r = rng.randrange(SHAPES), rng.uniform(8, 17)
            where = stamp(kind, rng.uniform(6, SIDE - 6), rng.uniform(6, SIDE - 6), r)
            image.paste(color(), (0, 0), where)
            mask.paste(GREY * (kind + 1), (0, 0), where)
        save(out, f"{i:05}", image, mask, "valid-" * (i % 10 == 9))


def part_of(name):
    """By the first code point, so that skin tones of one person stay in one part."""
    byte = hashlib.sha256(name.split("-")[0].encode()).digest()[0]
    return "valid-" if byte < 26 else "choose-" if byte < 39 else ""


def varied(sign, rng):
    """Of another hue and lightness, and turned, each at times: its colours are not to be learnt."""
    alpha = sign.getchannel("A")
    if rng.random() < 0.7:
        turn, light = rng.randrange(256), rng.uniform(0.6, 1.4)
        hue, saturation, value = sign.convert("RGB").convert("HSV").split()
        hue = hue.point(lambda v: (v + turn) % 256)
        value = value.point(lambda v: min(255, int(v * light)))
        sign = Image.merge("HSV", (hue, saturation, value)).convert("RGB")
        sign.putalpha(alpha)
    if rng.random() < 0.5:
        sign = sign.rotate(rng.uniform(-40, 40), Image.BICUBIC)
    return sign


def lay(sign, side, rng, image, mask):
    place = (rng.randrange(33 - side), rng.randrange(33 - side))
    small = sign.resize((side, side), Image.BICUBIC)
    where = small.getchannel("A").point(lambda a: 255 * (a > 127))
    image.paste(small, place, small)
    mask.paste(where, place, where)


def emoji(out, emoji_folder, photo_folder, times=20):
    photos = sorted(glob.glob(f"{photo_folder}/*.png"))
    signs = {os.path.basename(path)[:-4]: Image.open(path).convert("RGBA")
             for path in sorted(glob.glob(f"{emoji_folder}/*.png"))}
    others = [name for name in signs if not part_of(name)]
    for name, sign in signs.items():
        part = part_of(name)
        for k in range(VALID_TIMES if part else int(times)):
            rng = random.Random(f"{name}-{k}")
            photo = rng.choice(photos[-400:] if part == "valid-" else photos[:-400])
            side = rng.randrange(14, 29)
            image, mask = Image.open(photo).convert("RGB"), Image.new("L", (32, 32))
            if not part and rng.random() < 0.3:
                other = varied(signs[rng.choice(others)], rng)
                lay(other, rng.randrange(8, 25), rng, image, mask)
            lay(sign if part else varied(sign, rng), side, rng, image, mask)
            save(out, f"{name}-{k}", image, mask, part)


if __name__ == "__main__":
    if len(sys.argv) in (3, 4) and sys.argv[1] == "shapes":
        shapes(sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 4000)
    elif len(sys.argv) in (5, 6) and sys.argv[1] == "emoji":
        emoji(*sys.argv[2:])
    else:
        sys.exit(__doc__)
