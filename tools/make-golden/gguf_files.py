#!/usr/bin/env python3
"""Blocks of ggml's types, by gguf-py: tests/golden/gguf/types.gguf has a tensor of each type that
is read, types.safetensors the numbers that gguf-py takes them for, and the numbers `x` that those
of its types were made of which it can write.

    python tools/make-golden/gguf_files.py tests/golden/gguf
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file

BLOCKS_OF = [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]
WRITTEN = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.F32, T.F16, T.BF16]
# Where each type of BLOCKS_OF has its halves.
HALVES = {T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((4, 128)) * np.array([[1e-3], [1], [30], [2]])).astype(np.float32)
    x[3, :32] = 0
    x[3, 32:64] = np.arange(-16, 16)       # ties
    x[3, 64] = -7
    values = {"x": x}
    writer = gguf.GGUFWriter(out / "types.gguf", "golden")
    writer.add_uint8("a.u8", 200)
    writer.add_int8("a.i8", -100)
    writer.add_uint16("a.u16", 60000)
    writer.add_int16("a.i16", -30000)
    writer.add_int32("a.i32", -2000000000)
    writer.add_uint64("a.u64", 1 << 40)
    writer.add_int64("a.i64", -(1 << 40))
    writer.add_float32("a.f32", 0.1)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "three → words")
    writer.add_array("a.strings", ["", "ä", "bc"])
    writer.add_array("a.numbers", [3, -1, 2])
    for kind in WRITTEN:
        data = gguf.quants.quantize(x, kind)
        values[kind.name] = gguf.quants.dequantize(data, kind).astype(np.float32)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    for kind in BLOCKS_OF:
        _, size = gguf.GGML_QUANT_SIZES[kind]
        data = rng.integers(0, 256, (2, 2 * size), dtype=np.uint8)
        for row in data.reshape(4, size):
            for at in HALVES[kind]:
                half = np.float16(rng.uniform(1e-3, 0.1)).view(np.uint16)
                row[at:at + 2] = half.tobytes()[0], 0x1c
        values[kind.name] = gguf.quants.dequantize(data, kind).astype(np.float32)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(values, out / "types.safetensors")


main()
