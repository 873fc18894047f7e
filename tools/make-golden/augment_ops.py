"""Writes tests/golden/images/augment_ops: an image and what Pillow's operations make of it.

    python tools/make-golden/augment_ops.py tests/golden/images/augment_ops        (Pillow, NumPy)

colour.png and grey.png are stacks: the source on top, below it one result per row of `cases` in
tests/parity/test_augment_ops_golden.c, in its order.
"""
import sys

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

out = sys.argv[1]
W, H = 26, 20  # more than 255 pixels, or equalize does nothing
FILL = (120, 60, 200)
rng = np.random.default_rng(3)

y, x = np.mgrid[0:H, 0:W]
rgb = np.stack([40 + 6 * x, 220 - 8 * y, 60 + 5 * ((x * y) % 30)], -1)
rgb[5:12, 8:15] = (200, 40, 30)
rgb += rng.integers(0, 4, rgb.shape)
source = Image.fromarray(rgb.clip(0, 255).astype(np.uint8))


def affine(image, *matrix):
    fill = FILL if image.mode == "RGB" else FILL[0]
    return image.transform(image.size, Image.Transform.AFFINE, matrix,
                           resample=Image.Resampling.BILINEAR, fillcolor=fill)


def rotate(image, degrees):
    fill = FILL if image.mode == "RGB" else FILL[0]
    return image.rotate(degrees, Image.Resampling.BILINEAR, fillcolor=fill)


cases = [
    (lambda i: ImageOps.autocontrast(i)),
    (lambda i: ImageOps.equalize(i)),
    (lambda i: rotate(i, 27)),
    (lambda i: rotate(i, -13.5)),
    (lambda i: ImageOps.solarize(i, 26)),
    (lambda i: ImageOps.solarize(i, 128)),
    (lambda i: ImageOps.posterize(i, 5)),
    (lambda i: ImageEnhance.Color(i).enhance(0.19)),
    (lambda i: ImageEnhance.Color(i).enhance(1.81)),
    (lambda i: ImageEnhance.Contrast(i).enhance(0.19)),
    (lambda i: ImageEnhance.Contrast(i).enhance(1.81)),
    (lambda i: ImageEnhance.Brightness(i).enhance(0.19)),
    (lambda i: ImageEnhance.Brightness(i).enhance(1.81)),
    (lambda i: ImageEnhance.Sharpness(i).enhance(0.19)),
    (lambda i: ImageEnhance.Sharpness(i).enhance(1.81)),
    (lambda i: affine(i, 1, 0.27, 0, 0, 1, 0)),
    (lambda i: affine(i, 1, -0.15, 0, 0, 1, 0)),
    (lambda i: affine(i, 1, 0, 0, 0.27, 1, 0)),
    (lambda i: affine(i, 1, 0, 0.405 * W, 0, 1, 0)),
    (lambda i: affine(i, 1, 0, 0, 0, 1, -0.13 * H)),
]
for name, image in (("colour", source), ("grey", source.convert("L"))):
    stack = [np.asarray(image)] + [np.asarray(case(image)) for case in cases]
    Image.fromarray(np.concatenate(stack)).save(f"{out}/{name}.png", optimize=True)
