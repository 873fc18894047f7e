"""The structs of the C interface as classes of ctypes, each made when it is first asked for."""
from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CTYPES: dict[str, Any] = {
    name: getattr(ctypes, name) for name in dir(ctypes) if name.startswith('c_')}
_CTYPES['None'] = None


class Layout:
    """Makes classes of "field:type field:type .." texts."""

    def __init__(self, structs: dict[str, str]) -> None:
        self._texts = structs
        self._made: dict[str, Any] = {}

    def type(self, name: str) -> Any:
        """The class of "c_int", "qkv_image" or "c_size_t*8"."""
        if name in _CTYPES:
            return _CTYPES[name]
        if '*' in name:
            element, size = name.rsplit('*', 1)
            return self.type(element) * int(size)
        return self.struct(name)

    def struct(self, name: str) -> Any:
        made = self._made.get(name)
        if made is None:
            fields = [field.split(':') for field in self._texts[name].split()]
            made = type(name, (ctypes.Structure,), {
                '_fields_': [(field, self.type(kind)) for field, kind in fields]})
            self._made[name] = made
        return made
