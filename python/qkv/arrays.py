"""Arrays that show the library's memory without a copy."""
from __future__ import annotations

import ctypes
import sys

from .errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Optional

    import numpy

    from .typed import Shape, Values

# The element's class, its letter in struct, and NumPy's name of it.
_KINDS: dict[str, tuple[Any, Literal['f', 'd', 'i', 'B'], str]] = {
    '<f4': (ctypes.c_float, 'f', 'float32'), '<f8': (ctypes.c_double, 'd', 'float64'),
    '<i4': (ctypes.c_int32, 'i', 'int32'), '|u1': (ctypes.c_uint8, 'B', 'uint8')}


class Array:
    """Numbers in the library's memory, which it keeps alive. numpy.asarray(array), or .numpy(), is
    a view, without a copy; .memory a memoryview, without NumPy. Read-only unless made writable."""

    def __init__(self, address: Optional[int], shape: Shape, kind: str, owner: object,
                 writable: bool = False):
        self.shape: Shape = tuple(shape)
        self.dtype = kind
        self._owner = owner
        self._writable = writable
        count = 1
        for n in self.shape:
            count *= n
        element = _KINDS[kind][0]
        self._items = (element * count).from_address(address) if count and address else (
            element * 0)()
        self._items._owner = owner

    @property
    def address(self) -> int:
        return ctypes.addressof(self._items)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {'version': 3, 'shape': self.shape, 'typestr': self.dtype,
                'data': (self.address, not self._writable)}

    @property
    def memory(self) -> memoryview[Any]:
        """A memoryview of the same memory, of the same shape."""
        flat = memoryview(self._items).cast('B')
        view: memoryview[Any] = flat.cast(_KINDS[self.dtype][1], self.shape) if len(flat) else flat
        return view if self._writable else view.toreadonly()

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """A view of the same memory."""
        import numpy
        return numpy.asarray(self)

    def tolist(self) -> list[Any]:
        """A copy as lists of numbers."""
        return self.memory.tolist() if self._items else []

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __repr__(self) -> str:
        return 'Array(shape=%s, dtype=%r)' % (self.shape, self.dtype)


def take(value: Values, kinds: str, what: str) -> tuple[int, Shape, Any]:
    """The address and the shape of a dense array of these element types ("<f4") of the caller's,
    and what keeps it alive. Lists of numbers are copied."""
    interface = getattr(value, '__array_interface__', None)
    if isinstance(value, (bytes, bytearray, memoryview)):
        interface = None
    if interface is not None:
        if interface['typestr'] not in kinds.split():
            found = interface['typestr']
            raise ArgumentError('%s: an array of %s expected, found one of %s' % (
                what, ' or '.join(_KINDS[k][2] for k in kinds.split()),
                _KINDS[found][2] if found in _KINDS else found))
        if interface.get('strides') is not None:
            raise ArgumentError('%s: a dense array expected (numpy.ascontiguousarray)' % what)
        return interface['data'][0], tuple(interface['shape']), value
    return _copied(value, kinds.split()[0], what)


def _copied(value: Any, kind: str, what: str) -> tuple[int, Shape, Any]:
    """A copy of lists of lists of numbers."""
    shape: list[int] = []
    flat: Any = value
    level = flat
    while isinstance(level, (list, tuple)) or (isinstance(level, memoryview) and level.ndim):
        shape.append(len(level))
        if isinstance(level, memoryview):
            shape[-1:] = level.shape or ()
            break
        if not level:
            break
        level = level[0]
    if not shape:
        raise ArgumentError('%s: an array expected, found %s' % (what, type(value).__name__))
    for _ in shape[1:]:
        if any(len(part) != len(flat[0]) for part in flat):
            raise ArgumentError('%s: rows of equal length expected' % what)
        flat = [number for part in flat for number in part]
    try:
        made = (_KINDS[kind][0] * len(flat))(*flat)
        wrapped = '<f' not in kind and any(a != b for a, b in zip(made, flat))
    except TypeError:
        wrapped = True
    if wrapped:
        raise ArgumentError('%s: numbers of %s expected' % (what, _KINDS[kind][2]))
    return ctypes.addressof(made), tuple(shape), made


assert sys.byteorder == 'little'
