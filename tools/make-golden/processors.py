"""tests/golden/images/resize/processor-*.npy: bytes that image processors of transformers make of
source.png, which tools/make-golden/images.py wrote: resized, then the middle cut out.
Run: python tools/make-golden/processors.py"""

import numpy as np
from PIL import Image
from transformers import BitImageProcessorPil, DeiTImageProcessorPil

OUT = "tests/golden/images/resize"
# Processor, its size, height and width of what is cut, Pillow's filter.
CASES = {
    "shorter": (BitImageProcessorPil, {"shortest_edge": 20}, 16, 14, 3),
    "larger": (BitImageProcessorPil, {"shortest_edge": 50}, 47, 65, 3),
    "whole": (BitImageProcessorPil, {"shortest_edge": 17}, 17, 17, 2),
    "squashed": (DeiTImageProcessorPil, {"height": 21, "width": 21}, 16, 15, 3),
}

source = Image.open(f"{OUT}/source.png")
for name, (processor, size, height, width, resample) in CASES.items():
    made = processor(size=size, crop_size={"height": height, "width": width}, resample=resample,
                     do_rescale=False, do_normalize=False)(source, return_tensors="np")
    pixels = made["pixel_values"][0].transpose(1, 2, 0)
    np.save(f"{OUT}/processor-{name}.npy", pixels.astype(np.uint8))
