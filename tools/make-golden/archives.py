"""Writes tests/golden/io: idx arrays, plain and gzipped, and tar archives of every format, by
Python's own library.

    python tools/make-golden/archives.py tests/golden/io
"""
import gzip
import io
import struct
import sys
import tarfile

out = sys.argv[1]
pixels = bytes((7 * i + 3) % 256 for i in range(5 * 4 * 3))
idx = struct.pack(">HBBIII", 0, 8, 3, 5, 4, 3) + pixels
with open(f"{out}/plain.idx", "wb") as f:
    f.write(idx)
with open(f"{out}/packed.idx.gz", "wb") as f:  # two members: gzip files may be joined
    f.write(gzip.compress(idx[:20], mtime=0) + gzip.compress(idx[20:], mtime=0))

for name, format_ in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                      ("pax", tarfile.PAX_FORMAT)):
    with tarfile.open(f"{out}/{name}.tar", "w", format=format_) as tar:
        folder = tarfile.TarInfo("cats")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for i, path in enumerate(("cats/a.txt", "dogs/" + "long/" * 30 + "b.txt", "empty",
                                  "dogs/ümlaut.txt")):
            text = (f"file {i} " * 100 * i).encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        link = tarfile.TarInfo("link")
        link.type = tarfile.SYMTYPE
        link.linkname = "cats/a.txt"
        tar.addfile(link)
