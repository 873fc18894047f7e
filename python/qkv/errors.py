"""The exceptions: one for each status of the library, with its sentence.

Each is also the exception of Python's own that comes nearest, so that `except ValueError` works.
"""
from __future__ import annotations

import builtins


class Error(Exception):
    """A call failed. str() is the library's sentence: file, field, expected, found."""

    status = 'QKV_E_ARGUMENT'  #: the name of the library's status


class MemoryError(Error, builtins.MemoryError):
    """Memory ran out."""

    status = 'QKV_E_MEMORY'


class ArgumentError(Error, ValueError):
    """An argument or a setting is out of range, unknown, or does not suit another."""

    status = 'QKV_E_ARGUMENT'


class ShapeError(Error, ValueError):
    """Shapes do not fit."""

    status = 'QKV_E_SHAPE'


class FileError(Error, OSError):
    """A file cannot be read or written."""

    status = 'QKV_E_IO'


class FormatError(Error, ValueError):
    """A file is malformed."""

    status = 'QKV_E_FORMAT'


class UnsupportedError(Error, NotImplementedError):
    """The model cannot do it, or this build of the library."""

    status = 'QKV_E_UNSUPPORTED'


class NumericError(Error, ArithmeticError):
    """A number is not finite."""

    status = 'QKV_E_NUMERIC'


class CancelledError(Error):
    """The call was cancelled (Context.cancel)."""

    status = 'QKV_E_CANCELLED'


class ClosedError(Error, ValueError):
    """The object was closed before."""


BY_STATUS = {made.status: made for made in (
    MemoryError, ArgumentError, ShapeError, FileError, FormatError, UnsupportedError,
    NumericError, CancelledError)}
