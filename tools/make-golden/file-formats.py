"""Writes files of tests/golden/io: *.safetensors and *.npy with the reference libraries.

    python tools/make-golden/file-formats.py tests/golden/io
"""
import sys

import torch
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file

out = sys.argv[1]
torch.manual_seed(1)

# Floats whose rounding to 16 bits is interesting: ties, subnormals, overflow, random bits.
special = torch.tensor([0.0, -0.0, 1.0, 65504.0, 65519.9, 65520.0, -65536.0, 6e-8, 2.98e-8, 2.99e-8,
                        5.96e-8, 6.1e-5, 1e-40, 3.4e38, float("inf"), -float("inf"),
                        1.00048828125, 1.00146484375, 1.00390625, 1.01171875])
random = torch.randint(-(2**31), 2**31 - 1, (492,), dtype=torch.int32).view(torch.float32)
half_like = torch.randint(0x33000000, 0x47900000, (512,), dtype=torch.int32).view(torch.float32)
source = torch.cat([special, random[~random.isnan()], half_like])
save_file({"source": source, "f16": source.half(), "bf16": source.bfloat16()},
          f"{out}/rounding.safetensors", metadata={"format": "pt"})

n = torch.arange(6).reshape(2, 3)
save_file({
    "b.f32": n.float() / 4 - 0.5,
    "a.f32": torch.tensor(2.5),
    "f16": n.half() / 4, "bf16": n.bfloat16() / 4, "f64": n.double() / 3,
    "i8": (n - 3).to(torch.int8), "u8": (n + 250).to(torch.uint8),
    "i16": (n * -1000).to(torch.int16),
    "i32": (n * -100000).to(torch.int32), "i64": n * -(2**40), "bool": n % 2 == 1,
    "empty": torch.zeros(0, 3), "f8": n.to(torch.float8_e4m3fn),
}, f"{out}/types.safetensors", metadata={"format": "pt"})

# .npy: every type, both orders, all three versions.
import numpy as np  # noqa: E402

a = np.arange(24).reshape(2, 3, 4)
np.save(f"{out}/f4.npy", (a / 4).astype("<f4"))
np.save(f"{out}/f8.npy", (a / 4).astype("<f8"))
np.save(f"{out}/f2.npy", (a / 4).astype("<f2"))
np.save(f"{out}/fortran.npy", np.asfortranarray((a / 4).astype("<f4")))
np.save(f"{out}/scalar.npy", np.float32(2.5))
np.save(f"{out}/vector.npy", np.arange(5, dtype="<f4"))
for kind in ("i1", "u1", "i2", "i4", "i8", "u2", "u4", "u8"):
    np.save(f"{out}/{kind}.npy", a.astype(kind))
np.save(f"{out}/b1.npy", a % 2 == 1)
for version in ((2, 0), (3, 0)):
    with open(f"{out}/v{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, (a / 4).astype("<f4"), version=version)

# A text, pairs of sequences, labelled images: the data of training runs.
save_numpy({"tokens": np.array([5, 300, 65535], "u2")}, f"{out}/tokens.safetensors",
           metadata={"bytes": "9"})
rows = [[[5, 6, 0], [7, 0]], [[], [8, 0]], [[9, 10, 11, 0], []]]
ends = np.cumsum([0] + [len(field) for row in rows for field in row])
save_numpy({"tokens": np.concatenate([field for row in rows for field in row]).astype("i4"),
            "offsets": np.stack([ends[:-1:2], ends[1::2], ends[2::2]], 1)},
           f"{out}/records.safetensors")
save_numpy({"images": np.arange(6, dtype="u1").reshape(3, 2, 1, 1),
            "labels": np.array([0, 1, -1], "i4"),
            "names": np.frombuffer(b"a/x.png\0b/y-1.png\0z.png\0", "u1"),
            "classes": np.frombuffer(b"a\0b\0", "u1")}, f"{out}/images.safetensors")
