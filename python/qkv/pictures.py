"""What models of images do."""
from __future__ import annotations

import os
from ctypes import byref, c_size_t

from . import c
from .arrays import Array, take
from .context import Call, Record, text_at, to_bytes
from .errors import ArgumentError
from .images import Image, Source
from .options import Options
from .texts import Classes, Numbers, Owner, TextTasks, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union

    from .typed import Given, Option, Pair, Path

    Made = TypeVar('Made', bound=Owner)


class Pictures(Owner):
    """Images that a call made. They and their arrays share its memory."""

    def _image(self, name: str) -> Optional[Image]:
        return Image._of(getattr(self._struct, name), self._use())


class Segmentation(Pictures):
    """image: every pixel in its class's colour. map: (height, width) the class of each pixel.
    pixels: the number of pixels of each class."""

    @property
    def image(self) -> Optional[Image]:
        return self._image('image')

    @property
    def map(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.map, (s.image.height, s.image.width), '|u1', handle)

    @property
    def pixels(self) -> list[int]:
        self._use()
        return list(self._struct.pixels[:self._struct.classes])


class Reconstruction(Pictures):
    """image: the input. hidden: what the model saw. filled: what it made."""

    @property
    def image(self) -> Optional[Image]:
        return self._image('image')

    @property
    def hidden(self) -> Optional[Image]:
        return self._image('hidden')

    @property
    def filled(self) -> Optional[Image]:
        return self._image('filled')


class Colorization(Pictures):
    """image: the coloured image. seen: what the model saw, where a part was missing. attention: the
    image dimmed by the attention of the pixel that was asked for."""

    @property
    def image(self) -> Optional[Image]:
        return self._image('image')

    @property
    def seen(self) -> Optional[Image]:
        return self._image('seen')

    @property
    def attention(self) -> Optional[Image]:
        return self._image('attention')


class Codes(Numbers):
    """The grid of codes of an image: values (rows, columns)."""

    @property
    def values(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.codes, (s.rows, s.columns), '<i4', handle)

    def save(self, path: Path) -> None:
        """Writes them as .npy."""
        handle = self._use()
        handle.core.do(c.qkv_code_grid_save, byref(self._struct), to_bytes(path, 'path'))


class NextCode(Record):
    """A candidate for a code, with the model's own probability."""

    __slots__ = ('code', 'probability', 'drawn')
    code: int
    probability: float
    drawn: bool


class Samples(Pictures):
    """images: (count, height, width, channels). codes: (count, rows, columns). sheet: all images in
    one. next: with show_next, the likeliest codes at the place `at`, of each image."""

    @property
    def images(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.images, (s.count, s.height, s.width, s.channels), '|u1', handle)

    @property
    def codes(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.codes, (s.count, s.rows, s.columns), '<i4', handle)

    @property
    def sheet(self) -> Optional[Image]:
        return self._image('sheet')

    @property
    def next(self) -> list[list[NextCode]]:
        self._use()
        s = self._struct
        if not s.next:
            return []
        counts = (c_size_t * s.count).from_address(s.next_count)
        found = (c.qkv_next_code * (s.count * s.shown)).from_address(s.next)
        return [[NextCode(code=n.code, probability=n.probability, drawn=n.drawn)
                 for n in found[i * s.shown:i * s.shown + counts[i]]] for i in range(s.count)]


class ImageClasses(Classes):
    """The classes of an image, with its file's name."""

    __slots__ = ('name',)
    name: str

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return cls.__slots__ + Classes.__slots__


class ImageTasks(TextTasks):
    """Tasks of models that read images. An image is a path, an Image, or an array of uint8 (height,
    width) or (height, width, 3), whose memory is read."""

    def classify(self, what: Union[Given, Iterable[Union[Given, Pair]]]) -> Any:
        """The Classes of a text or a pair (text, second), the ImageClasses of an image; a list of
        them gives a list. A folder of images gives a list. With a model of series: the path of a
        file of series, and a list. Which of these the model decides: so the type is Any."""
        if self.can('classify_series'):
            if not isinstance(what, (str, bytes, os.PathLike)):
                raise ArgumentError('classify: a file of series expected, found %s'
                                    % type(what).__name__)
            return self.classify_lines(what)
        images = self.can('classify_images')
        one, items = listed(what)
        if not images and isinstance(what, tuple):
            one, items = True, [what]
        if not items:
            return []
        found = self._classify_images(items) if images else self._classify_texts(items)
        folder = images and one and isinstance(what, (str, bytes, os.PathLike)) and (
            os.path.isdir(what) or len(found) != 1)
        return found[0] if one and not folder else found

    def _classify_images(self, items: Sequence[Given]) -> list[ImageClasses]:
        handle = self._use()
        sources = [Source(item) for item in items]
        array = (c.qkv_image_source * len(items))(*[s.struct for s in sources])
        found: list[ImageClasses] = []

        def on_labels(_: Any, address: int) -> None:
            f = c.qkv_image_labels.from_address(address)
            if f.error:
                raise handle.core.failure()
            classes = self._classes(f.probabilities, f.classes)
            found.append(ImageClasses(name=text_at(f.name), label=classes.label,
                                      probabilities=classes.probabilities))
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_image_labels_fn', on_labels)
            call(c.qkv_pipeline_classify_images, handle.pointer, array, len(items), fn, None)
        return found

    def _picture(self, made: Made, out: Any, free: Callable[[Any], Any],
                 function: Callable[..., Any], *arguments: Any) -> Made:
        handle = self._use()
        with Call(handle.core, handle) as call:
            call(function, handle.pointer, *arguments, byref(out))
        made._take(handle.core, out, free)
        return made

    def _image_task(self, made: Made, out: Any, free: Callable[[Any], Any], name: str,
                    image: Given, options: Mapping[str, Option]) -> Made:
        call = 'qkv_pipeline_' + name
        o = Options(self._use().core, call, options)
        source = Source(image)
        return self._picture(made, out, free, getattr(c, call), byref(source.struct), o.reference)

    def segment(self, image: Given, **options: Option) -> Segmentation:
        """A class for every pixel. The options are those of `qkv segment`."""
        return self._image_task(Segmentation(), c.qkv_segmentation(), c.qkv_segmentation_free,
                                'segment', image, options)

    def reconstruct(self, image: Given, **options: Option) -> Reconstruction:
        """Masks a share of the patches and fills them in. mask, paste, seed."""
        return self._image_task(Reconstruction(), c.qkv_reconstruction(),
                                c.qkv_reconstruction_free, 'reconstruct', image, options)

    def colorize(self, image: Given, **options: Option) -> Colorization:
        """Colours an image. hint=["X,Y,#RRGGBB", ..] and the other options of `qkv colorize`."""
        return self._image_task(Colorization(), c.qkv_colorization(), c.qkv_colorization_free,
                                'colorize', image, options)

    def encode(self, image: Given) -> Codes:
        """The codes of an image (VQGAN)."""
        source = Source(image)
        return self._picture(Codes(), c.qkv_code_grid(), c.qkv_code_grid_free,
                             c.qkv_pipeline_encode, byref(source.struct))

    def decode(self, codes: Union[Codes, Given]) -> Image:
        """The image of codes: Codes, int32 (rows, columns), or a file."""
        handle = self._use()
        keep: Any = None
        if isinstance(codes, (str, bytes, os.PathLike)):
            grid = c.qkv_code_grid()
            handle.core.do(c.qkv_code_grid_load, byref(grid), handle.core.pointer,
                           to_bytes(codes, 'codes'))
            keep = Codes()
            keep._take(handle.core, grid, c.qkv_code_grid_free)
        elif isinstance(codes, Codes):
            keep = codes._use()
            grid = codes._struct
        else:
            address, shape, keep = take(codes, '<i4', 'codes')
            if len(shape) != 2:
                raise ArgumentError('codes: (rows, columns) expected, found %s' % (shape,))
            grid = c.qkv_code_grid(ctx=handle.core.pointer, rows=shape[0], columns=shape[1],
                                   codes=address)
        out = c.qkv_image()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_decode, handle.pointer, byref(grid), byref(out))
        made = Image.__new__(Image)
        made._own(handle.core, out)
        del keep
        return made

    def imagine(self, *, condition: Optional[Given] = None,
                complete: Optional[Given] = None, **options: Option) -> Samples:
        """Samples images from a prior. count, class_, seed and the other options of
        `qkv imagine`; condition, complete: images."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_sample', options)
        sources = []
        for name, image in (('condition', condition), ('complete', complete)):
            if image is not None:
                source = Source(image)
                setattr(o.struct, name, source.struct)
                sources.append(source)
        return self._picture(Samples(), c.qkv_sampled_images(), c.qkv_sampled_images_free,
                             c.qkv_pipeline_sample_images, o.reference)
