"""Images: 8 bits a channel, rows from the top."""
from __future__ import annotations

import os
from ctypes import addressof, byref, create_string_buffer, memmove

from . import c
from .arrays import Array, take
from .context import Context, Core, Handle, Owned, core_of, to_bytes
from .errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    import numpy

    from .typed import Given, Path, Shape, Values


def free_image(image: Any, core: Core) -> None:
    c.qkv_image_free(byref(image), core.pointer)


class Image(Owned):
    """An image of the library. Image.open(path), or Image(array) of a copy of uint8 (height, width)
    or (height, width, 3). numpy.asarray(image) is a view."""

    _image: Any

    def __init__(self, array: Values, *, ctx: Optional[Context] = None):
        self._copy(core_of(ctx), array)

    def _copy(self, core: Core, array: Values) -> None:
        address, shape, keep = take(array, '|u1', 'array')
        height, width, channels = image_shape(shape)
        image = c.qkv_image()
        core.do(c.qkv_image_create, byref(image), core.pointer, width, height, channels)
        memmove(image.data, address, height * width * channels)
        self._own(core, image)
        del keep

    def _own(self, core: Core, image: Any) -> None:
        self._image = image
        self._handle = Handle(core, image, lambda i: free_image(i, core))

    @classmethod
    def open(cls, path: Path, *, channels: int = 3, ctx: Optional[Context] = None) -> Image:
        """Reads a PNG or JPEG file. channels: 1, 3, or 0: as in the file."""
        core = core_of(ctx)
        image, options = c.qkv_image(), c.qkv_image_defaults()
        if channels not in (0, 1, 3):
            raise ArgumentError('channels: 0, 1 or 3 expected, found %s' % channels)
        options.channels = channels
        core.do(c.qkv_image_read, byref(image), core.pointer, to_bytes(path, 'path'),
                byref(options))
        made = cls.__new__(cls)
        made._own(core, image)
        return made

    @classmethod
    def _of(cls, image: Any, owner: Handle) -> Optional[Image]:
        """An image inside something that owns it; None: there is none."""
        if not image.data:
            return None
        made = cls.__new__(cls)
        made._image = image
        made._handle = Handle(owner.core, image, None, owner)
        return made

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)"""
        self._use()
        return self._image.height, self._image.width, self._image.channels

    @property
    def array(self) -> Array:
        """The pixels, (height, width, channels) uint8: the image's memory."""
        handle = self._use()
        return Array(self._image.data, self.shape, '|u1', handle)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    def numpy(self) -> numpy.ndarray[Any, Any]:
        return self.array.numpy()

    def save(self, path: Path) -> None:
        """Writes a PNG file."""
        handle = self._use()
        handle.core.do(c.qkv_image_write, byref(self._image), handle.core.pointer,
                       to_bytes(path, 'path'))


def image_shape(shape: Shape) -> tuple[int, int, int]:
    full = tuple(shape) + (1,) if len(shape) == 2 else tuple(shape)
    if len(full) != 3 or full[2] not in (1, 3) or 0 in full:
        raise ArgumentError('image: (height, width), (height, width, 1) or (height, width, 3) '
                            'expected, found %s' % (tuple(shape),))
    return full


class Source:
    """qkv_image_source of a path, an Image, or an array of uint8, whose memory is read."""

    def __init__(self, value: Given):
        self.struct = c.qkv_image_source()
        self.fill(self.struct, value)

    def fill(self, struct: Any, value: Given) -> None:
        self._keep: Any
        if isinstance(value, (str, bytes, os.PathLike)):
            self._keep = Chars(value, 'image')
            struct.path = self._keep.address
            return
        if isinstance(value, Image):
            self._keep = (value._use(), value._image)
            struct.image = addressof(value._image)
            return
        address, shape, keep = take(value, '|u1', 'image')
        height, width, channels = image_shape(shape)
        image = c.qkv_image(width=width, height=height, channels=channels, data=address)
        self._keep = (image, keep)
        struct.image = addressof(image)


class Chars:
    """A text for a field of a struct: `address` is valid as long as this object."""

    def __init__(self, text: Path, what: str = 'text'):
        self._buffer = create_string_buffer(to_bytes(text, what))
        self.address = addressof(self._buffer)

    def __len__(self) -> int:
        return len(self._buffer) - 1
