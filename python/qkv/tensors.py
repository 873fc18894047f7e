"""Tensors of a forward pass, for probes."""
from __future__ import annotations

import sys
from ctypes import byref, c_size_t, c_void_p, cast

from . import c
from .arrays import Array, take
from .context import Call, Core, to_bytes, to_str
from .errors import ArgumentError, Error
from .images import Chars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from .typed import Shape, Values


def _references(view: Array) -> tuple[int, int]:
    """Who refers to a view, and to its items: a memoryview holds these alone."""
    return sys.getrefcount(view), sys.getrefcount(view._items)


def _alone() -> tuple[int, int]:
    view = Array(None, (0,), '<f4', None)
    return _references(view)


_ALONE = _alone()  # of a view that one function has


def _kept(references: tuple[int, int], name: str) -> None:
    if any(n > least for n, least in zip(references, _ALONE)):
        raise Error('%s: a view was kept after its probe returned; keep a copy' % name)


class Tensor:
    """A tensor during a probe's call. numpy.asarray(tensor) and tolist() copy it; view() shows its
    memory, which is only valid until the probe returns."""

    def __init__(self, tape: Any, pointer: int):
        self._tape, self._pointer = tape, pointer
        self._view: Optional[Array] = None
        self.shape = tuple(c.qkv_dim(pointer, i) for i in range(c.qkv_ndim(pointer)))

    def view(self) -> Array:
        """Its memory, without a copy. Whoever keeps it longer than the probe's call gets an
        error."""
        if self._pointer is None:
            raise Error('the tensor is gone: its probe has returned')
        if self._view is None:
            ids = c.qkv_tensor_dtype(self._pointer) == c.QKV_I32
            address = (c.qkv_data_ids if ids else c.qkv_data)(self._tape, self._pointer)
            if not address:
                raise Error('the tensor cannot be read')
            self._view = Array(address, self.shape, '<i4' if ids else '<f4', None)
        return self._view

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy
        if copy is False:
            raise ValueError('a copy is needed: view() makes none')
        return numpy.array(self.view(), dtype=dtype)

    def tolist(self) -> list[Any]:
        return self.view().tolist()

    def _end(self) -> Optional[Array]:
        """Takes the memory away; returns the view, if one was made."""
        view, self._view, self._pointer = self._view, None, None  # type: ignore
        return view


class Tape:
    """The tape of a pass, to which probes are added."""

    def __init__(self, core: Core, pointer: int, call: Call):
        self._core, self._call = core, call
        self._pointer: Optional[int] = pointer

    def _open(self) -> int:
        if self._pointer is None:
            raise Error('the tape is gone: its pass is over')
        return self._pointer

    def probe(self, pattern: Optional[str],
              function: Callable[[str, Tensor], Optional[Values]]) -> None:
        """Has function(name, tensor) called at every place that matches, in which "*" stands for
        any characters (None: all). What it returns, an array of the tensor's shape, replaces the
        tensor; None leaves it."""
        tape = self._open()

        def on_place(_: Any, on: int, name: bytes, x: int) -> Any:
            tensor, said = Tensor(on, x), to_str(name)
            try:
                result = function(said, tensor)
            finally:
                view = tensor._end()
            made = x if result is None else self._replace(on, said, tensor.shape, result)
            del result
            if view is not None:
                _kept(_references(view), said)
            return made
        # NULL would fail the pass: the next event ends it, and training saves.
        fn = self._call.callback('qkv_probe_fn', on_place, stop=lambda user, on, name, x: x)
        places = None if pattern is None else to_bytes(pattern, 'pattern')
        self._core.check(c.qkv_probe_add(tape, places, fn, None))

    def _replace(self, tape: int, name: str, shape: Shape, value: Values) -> int:
        cast_to = getattr(value, 'astype', None)  # of NumPy
        if cast_to is not None:
            value = cast_to('float32', order='C')
        address, found, keep = take(value, '<f4', name)
        if found != shape:
            raise ArgumentError('%s: an array %s expected, found %s' % (name, shape, found))
        made = c.qkv_tensor_from(tape, address, len(shape), (c_size_t * max(len(shape), 1))(*shape))
        del keep
        if not made:
            raise self._core.failure()
        return int(made)

    def attention(self, function: Callable[[str, int, int, int, Array], object],
                  pattern: Optional[str] = None, *, gradient: bool = False) -> None:
        """Has function(name, sequence, head, row, weights) called with rows of attention weights
        (rows, keys), the first of which is query `row`, at attentions whose name matches. The
        weights are valid during the call. gradient: of the objective, in place of the weights."""
        tape = self._open()

        def on_weights(_: Any, name: bytes, sequence: int, head: int, row: int, rows: int,
                       keys: int, address: int) -> None:
            view = Array(address, (rows, keys), '<f4', None)
            function(to_str(name), sequence, head, row, view)
            _kept(_references(view), to_str(name))
        probe = c.qkv_attention_probe(sequence=-1, head=-1, gradient=gradient)
        fn = self._call.callback('qkv_attention_probe.fn', on_weights, stop=None)
        name = None if pattern is None else Chars(pattern, 'pattern')
        if name:
            probe.name = name.address
        probe.fn = cast(fn, c_void_p)
        self._core.check(c.qkv_attention_probe_add(tape, byref(probe)))

    def _end(self) -> None:
        self._pointer = None
