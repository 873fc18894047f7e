"""The whole C interface by its own names: functions, structs, function types and constants.

    from qkv import c
    c.qkv_version(None)                    a function with the types of the header
    c.qkv_pipeline_generate_options()      a struct of ctypes
    c.qkv_event_fn(lambda user, event: True)
    c.QKV_OK

The build makes the tables behind it from the public headers and has the compiler check the layout
of every struct. A pointer is an address: an int, None for NULL, or byref(..) of a struct; a text
that C ends with a 0 byte is bytes. Functions with "..." are left out. Here nothing is checked: what
C forbids crashes. The classes of the package are built on it.
"""
from __future__ import annotations

import ctypes
import os

from . import _tables
from .layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib')
_layout = Layout(_tables.STRUCTS)


def _load() -> ctypes.CDLL:
    path = os.path.join(_FOLDER, 'libqkv.so')
    try:
        return ctypes.CDLL(path)
    except OSError:
        # The C++ library of oneDNN is the system's where there is one that is not too old: other
        # packages load it too. Else it is the one in the folder below.
        spare = os.path.join(_FOLDER, 'spare')
        if not os.path.isdir(spare):
            raise
        for name in ('libgcc_s.so.1', 'libstdc++.so.6'):
            ctypes.CDLL(os.path.join(spare, name), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(path)


library = _load()


def _make(name: str) -> Any:
    if name in _tables.CONSTANTS:
        return _tables.CONSTANTS[name]
    if name in _tables.FUNCTIONS:
        result, *arguments = map(_layout.type, _tables.FUNCTIONS[name].split())
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        return function
    if name in _tables.STRUCTS:
        return _layout.struct(name)
    if name in _tables.CALLBACKS:
        return callback(name)
    raise AttributeError('qkv has no "%s"' % name)


def callback(name: str) -> Any:
    """The class of a function type, or of a struct's pointer to a function: "struct.field"."""
    return ctypes.CFUNCTYPE(*map(_layout.type, _tables.CALLBACKS[name].split()))


def __getattr__(name: str) -> Any:
    if name.startswith('_'):
        raise AttributeError(name)
    made = globals()[name] = _make(name)
    return made


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_tables.CONSTANTS) | set(_tables.FUNCTIONS)
                  | set(_tables.STRUCTS) | {k for k in _tables.CALLBACKS if '.' not in k})
