"""The types of arguments. Only type checkers read this file: at run time it is never imported."""
from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Protocol, Sequence, Union

Shape = tuple[int, ...]
Text = Union[str, bytes]
Texts = Union[list[str], tuple[str, ...], Iterator[str]]  # not Iterable: a str is one, too
Pair = Union[Text, Sequence[Text]]
Path = Union[str, bytes, 'os.PathLike[str]', 'os.PathLike[bytes]']
Paths = Union[Path, Iterable[Path]]


class Dense(Protocol):
    """An array as NumPy describes one: NumPy's, an Array, an Image, a Parameter .."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class Scalar(Protocol):
    """A number of NumPy."""

    def item(self) -> Any: ...


Nested = Sequence[Union[float, 'Nested']]
Values = Union[Dense, memoryview[Any], Nested]
Given = Union[Path, Values]  # an image or a series: a file, or numbers
One = Union[bool, int, float, Path, Scalar, None]
Option = Union[One, Sequence[One]]
