"""Writes tests/golden/io/emoji.ttf: a font of four tiny coloured bitmaps in two sizes, byte by
byte as OpenType 1.9 describes tables cmap (format 12), CBLC and CBDT.

    python tools/make-golden/emoji_font.py tests/golden/io
"""
import struct
import sys
import zlib


def png(side, rgba):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    rows = (b"\0" + bytes(rgba) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


colours = [(255, 200, 0, 255), (200, 0, 0, 255), (90, 60, 30, 255), (0, 0, 255, 128)]
cbdt = struct.pack(">HH", 3, 0)


def index(first, kind, image, images):
    """An index of one range of glyphs; its images go to CBDT."""
    global cbdt
    base, offsets, data = len(cbdt), [0], b""
    for p in images:
        metrics = {17: b"\x08\x08\0\0\0", 18: b"\x08\x08" + bytes(6), 19: b""}[image]
        data += metrics + struct.pack(">I", len(p)) + p if p else b""
        offsets.append(len(data))
    cbdt += data
    head = struct.pack(">HHI", kind, image, base)
    body = struct.pack(f">{len(offsets)}{'I' if kind == 1 else 'H'}", *offsets)
    return head + body + bytes(-len(head + body) % 4)


def strike(first_index, at, ppem):
    """The index array and its indices, at an offset of CBLC; and the 48 bytes about them."""
    array, blob = b"", b""
    for first, last, data in first_index:
        array += struct.pack(">HHI", first, last, 8 * len(first_index) + len(blob))
        blob += data
    size = struct.pack(">IIII", at, len(array + blob), len(first_index), 0) + bytes(24)
    size += struct.pack(">HHBBBB", first_index[0][0], first_index[-1][1], ppem, ppem, 32, 1)
    return size, array + blob


small = [(1, 1, index(1, 3, 19, [png(2, colours[0])]))]
# Glyph 2 has no image, glyph 5 no code.
large = [(1, 3, index(1, 1, 17, [png(4, colours[0]), b"", png(4, colours[1])])),
         (4, 5, index(4, 3, 18, [png(4, colours[2]), png(4, colours[3])]))]
first_size, first = strike(small, 8 + 96, 4)
second_size, second = strike(large, 8 + 96 + len(first), 8)
cblc = struct.pack(">HHI", 3, 0, 2) + first_size + second_size + first + second
groups = [(0x2764, 0x2764, 3), (0x1F600, 0x1F601, 1), (0x1F603, 0x1F603, 1), (0x1F43B, 0x1F43B, 4)]
groups.sort()
cmap = struct.pack(">HH", 0, 1) + struct.pack(">HHI", 3, 10, 12)
cmap += struct.pack(">HHIII", 12, 0, 16 + 12 * len(groups), 0, len(groups))
cmap += b"".join(struct.pack(">III", *g) for g in groups)

tables, at, directory, body = {b"CBDT": cbdt, b"CBLC": cblc, b"cmap": cmap}, 12 + 16 * 3, b"", b""
for tag, data in tables.items():
    directory += struct.pack(">4sIII", tag, 0, at + len(body), len(data))
    body += data + bytes(-len(data) % 4)
with open(f"{sys.argv[1]}/emoji.ttf", "wb") as f:
    f.write(struct.pack(">IHHHH", 0x10000, len(tables), 32, 1, 16) + directory + body)
