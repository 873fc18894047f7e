"""qkv: trains, runs and looks inside transformers on text and images.

    import qkv

    qkv.train("lm", data="novel.txt", minutes=5, out="runs/novel")
    model = qkv.Model("runs/novel")
    print(model.generate("Once", tokens=200))
    model.look("To be or not").page("report.html")

A layer over the library libqkv, which is in the package: what it does, C does with the same names
and settings (qkv.c has the whole C interface). docs/python.md describes it. NumPy is only needed
where arrays of NumPy are asked for.
"""
from __future__ import annotations

from . import c, errors
from .arrays import Array
from .chat import Answer, Chat
from .context import Context, Event, version
from .errors import (ArgumentError, CancelledError, ClosedError, Error, FileError, FormatError,
                     MemoryError, NumericError, ShapeError, UnsupportedError)
from .files import Shortlist, bleu, chrf, convert, quantize, report, shortlist
from .images import Image
from .looking import Changed, Head, Look, Patch, Place
from .model import Model, Parameter, Parameters
from .options import Setting
from .pictures import (Codes, Colorization, ImageClasses, NextCode, Reconstruction, Samples,
                       Segmentation)
from .tensors import Tape, Tensor
from .texts import Classes, Continuation, Guess, NextToken, Series, Translation, Vectors
from .tokenizer import Tokenizer
from .training import Pass, Result, Training, check, kinds, options, settings, train

__version__ = version()
__all__ = [  # in full: type checkers read it
    'Answer', 'ArgumentError', 'Array', 'bleu', 'c', 'CancelledError', 'Changed', 'Chat',
    'check', 'chrf', 'Classes', 'ClosedError', 'Codes', 'Colorization', 'Context',
    'Continuation', 'convert', 'Error', 'errors', 'Event', 'FileError', 'FormatError', 'Guess',
    'Head', 'Image', 'ImageClasses', 'kinds', 'Look', 'MemoryError', 'Model', 'NextCode',
    'NextToken', 'NumericError', 'options', 'Parameter', 'Parameters', 'Pass', 'Patch', 'Place',
    'quantize', 'Reconstruction', 'report', 'Result', 'Samples', 'Segmentation', 'Series',
    'Setting', 'settings', 'ShapeError', 'Shortlist', 'shortlist', 'Tape', 'Tensor',
    'Tokenizer', 'train', 'Training', 'Translation', 'UnsupportedError', 'Vectors']
