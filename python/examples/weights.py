"""Weights and activations as arrays of NumPy: views of the library's memory, without copies.

    python3 weights.py runs/novel "It was"
"""
import sys

import numpy as np

import qkv

model, text = qkv.Model(sys.argv[1]), sys.argv[2]
for name, parameter in model.parameters.items():
    print("%-28s %-14s std %.4f" % (name, parameter.shape, np.asarray(parameter).std()))

norms: dict = {}


def begin(tape):
    def on_place(name, x):
        norms[name] = np.linalg.norm(x.view().numpy(), axis=-1).mean()
    tape.probe("*.resid_post", on_place)
    tape.probe("h.0.attn.z", lambda name, x: np.asarray(x) * 0)  # what it returns goes on


model.probe(text, begin)
print(norms)
with model.parameters["tokens"].edit() as array:  # writable until the end of the block
    array.numpy()[:] *= 1.1
print(model.generate(text, tokens=20, greedy=True))
