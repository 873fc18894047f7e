"""Writes tests/golden/images: small images of every kind, and what they are as red, green, blue.

    python tools/make-golden/images.py tests/golden/images        (Pillow, NumPy)

The PNGs are written here, byte by byte, so that every colour type, depth and interlacing there is
can be had, and what they must become is computed from the samples. The JPEGs are Pillow's, both
ways. NAME.npy is (height, width, 3) of u8, over the background (10, 200, 90).
"""
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

out = sys.argv[1]
W, H = 11, 9  # odd: every pass of interlacing has a ragged edge
BACKGROUND = np.array([10, 200, 90])
rng = np.random.default_rng(5)
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
         (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack(samples, depth):
    """(h, w, channels) -> scanlines without a filter, samples of `depth` bits."""
    lines = b""
    for row in samples:
        flat = row.reshape(-1)
        if depth == 16:
            lines += b"\0" + flat.astype(">u2").tobytes()
        elif depth == 8:
            lines += b"\0" + flat.astype("u1").tobytes()
        else:
            bits = "".join(format(v, f"0{depth}b") for v in flat)
            bits += "0" * (-len(bits) % 8)
            lines += b"\0" + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
    return lines


def png(name, samples, kind, depth, interlaced, extra=b""):
    header = struct.pack(">IIBBBBB", W, H, depth, kind, 0, 0, int(interlaced))
    passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    data = b"".join(pack(p, depth) for p in passes if p.size)
    with open(f"{out}/{name}.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra +
                chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def to8(v, depth):
    """Nearest of 255 to v / (2^depth - 1)."""
    return (v.astype(np.int64) * 255 * 2 + (2**depth - 1)) // (2 * (2**depth - 1))


def over(rgb, alpha):
    a = alpha[..., None]
    return (rgb * a + BACKGROUND * (255 - a) + 127) // 255


def save(name, rgb):
    np.save(f"{out}/{name}.npy", rgb.astype(np.uint8))


for kind, depths in ((GREY, (1, 2, 4, 8, 16)), (RGB, (8, 16)), (PALETTE, (1, 2, 4, 8)),
                     (GREY_ALPHA, (8, 16)), (RGBA, (8, 16))):
    for depth in depths:
        for key in (False, True):
            if key and kind in (GREY_ALPHA, RGBA):
                continue
            interlaced = (depth + kind + key) % 2 == 1 or depth == 16
            top = 2**depth
            samples = rng.integers(0, top, (H, W, CHANNELS[kind]))
            extra = b""
            alpha = np.full((H, W), 255)
            if kind == PALETTE:
                palette = rng.integers(0, 256, (top, 3))
                rgb = palette[samples[..., 0]]
                extra = chunk(b"PLTE", palette.astype("u1").tobytes())
                if key:  # fewer entries than colours: the others are opaque
                    table = rng.integers(0, 256, max(1, top // 2))
                    extra += chunk(b"tRNS", table.astype("u1").tobytes())
                    full = np.concatenate([table, np.full(top - len(table), 255)])
                    alpha = full[samples[..., 0]]
            else:
                colours = samples[..., :1] if kind in (GREY, GREY_ALPHA) else samples[..., :3]
                rgb = np.broadcast_to(to8(colours, depth), (H, W, 3))
                if kind in (GREY_ALPHA, RGBA):
                    alpha = to8(samples[..., -1], depth)
                if key:  # one colour is transparent, exactly
                    samples[2, 3] = samples[0, 0]
                    rgb = np.broadcast_to(to8(samples, depth), (H, W, 3))
                    alpha = np.where((samples == samples[0, 0]).all(-1), 0, 255)
                    extra = chunk(b"tRNS", samples[0, 0].astype(">u2").tobytes())
            name = f"type{kind}-{depth}bit" + ("-key" if key else "")
            png(name, samples, kind, depth, interlaced, extra)
            save(name, over(rgb, alpha))

# ---- JPEG ----------------------------------------------------------------------------
x, y = np.meshgrid(np.arange(40), np.arange(24))
smooth = np.stack([x * 6, y * 10, 255 - x * 3 - y * 4], -1).clip(0, 255).astype(np.uint8)
image = Image.fromarray(smooth)


def jpeg(name, image, **options):
    image.save(f"{out}/{name}.jpg", quality=90, **options)
    save(name, np.asarray(Image.open(f"{out}/{name}.jpg").convert("RGB")))


jpeg("grey", image.convert("L"))
for subsampling, text in ((0, "444"), (1, "422"), (2, "420")):
    jpeg(f"colour-{text}", image, subsampling=subsampling)
jpeg("progressive", image, progressive=True)
jpeg("print", image.convert("CMYK"))

for turn in range(1, 9):
    exif = Image.Exif()
    exif[0x112] = turn
    image.save(f"{out}/turn{turn}.jpg", quality=90, exif=exif, subsampling=0)

    save(f"turn{turn}", np.asarray(ImageOps.exif_transpose(Image.open(f"{out}/turn{turn}.jpg"))))

# ---- resizing: what resize() makes of source.png ------------------------------------------
source = rng.integers(0, 256, (33, 47, 3)).astype(np.uint8)
Image.fromarray(source).save(f"{out}/resize/source.png")
for filter_ in ("box", "bilinear", "bicubic"):
    for width, height, box in ((16, 16, None), (90, 20, None), (64, 70, (3.5, 2.25, 30.75, 31)),
                               (47, 33, None), (1, 1, None)):
        made = Image.fromarray(source).resize((width, height), Image.Resampling[filter_.upper()],
                                              box)
        save(f"resize/{filter_}-{width}x{height}", np.asarray(made))
