"""What models of texts and of series do."""
from __future__ import annotations

import os
from ctypes import byref, c_float, c_int32, c_void_p

from . import c
from .arrays import Array, take
from .context import (Call, Core, Handle, Owned, Record, as_utf8, integer, text_at,
                      to_bytes, to_str)
from .errors import ArgumentError
from .images import Chars
from .options import Options, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Optional, Sequence, Union, overload

    from .typed import Given, Option, Pair, Path, Texts, Values


class NextToken(Record):
    """A candidate for the next token, with the model's own probability; drawn: the text goes on
    with it."""

    __slots__ = ('id', 'text', 'probability', 'drawn')
    id: int
    text: str
    probability: float
    drawn: bool


class Continuation(Record):
    """A continuation of a prompt. next: with show_next, the candidates of each step."""

    __slots__ = ('text', 'ids', 'next')
    text: str
    ids: list[int]
    next: list[list[NextToken]]


class Guess(Record):
    """A token that a mask may stand for."""

    __slots__ = ('text', 'id', 'probability')
    text: str
    id: int
    probability: float


class Translation(Record):
    __slots__ = ('text', 'score')
    text: str
    score: float


class Classes(Record):
    """The likeliest class, and the probability of each, the most probable first."""

    __slots__ = ('label', 'probabilities')
    label: str
    probabilities: dict[str, float]


class Owner(Owned):
    """Something with a struct of the library's behind it."""

    _struct: Any

    def _take(self, core: Core, struct: Any, free: Callable[[Any], Any]) -> None:
        self._struct = struct
        self._handle = Handle(core, struct, lambda s: free(byref(s)))


class Numbers(Owner):
    """An owner of an array of numbers: numpy.asarray(..) is a view of it."""

    @property
    def values(self) -> Array:
        raise NotImplementedError

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.values.__array_interface__


class Series(Numbers):
    """Rows of numbers: values (rows, columns), and their columns' names (or none)."""

    @property
    def values(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.data, tuple(s.shape[:s.ndim]), '<f4', handle)

    @property
    def columns(self) -> list[str]:
        self._use()
        s = self._struct
        names = (c_void_p * s.shape[1]).from_address(s.names) if s.names else []
        return [text_at(name) for name in names]


class Vectors(Numbers):
    """Vectors of length 1 and what they are of."""

    @property
    def values(self) -> Array:
        handle = self._use()
        s = self._struct
        return Array(s.data, (s.count, s.width), '<f4', handle)

    @property
    def names(self) -> list[str]:
        self._use()
        s = self._struct
        return [text_at(name) for name in (c_void_p * s.count).from_address(s.names)]

    def __len__(self) -> int:
        self._use()
        return int(self._struct.count)

    def nearest(self, among: Vectors, k: int = 5) -> list[list[tuple[int, float]]]:
        """Of each vector the k nearest ones: (index in among, cosine), the nearest first."""
        handle, n = self._use(), len(self)
        k = integer(k, 'k', 1, len(among))
        ids, cosines = (c_int32 * (n * k))(), (c_float * (n * k))()
        handle.core.do(c.qkv_vectors_nearest, byref(self._struct), byref(among._struct), k, ids,
                       cosines)
        return [list(zip(ids[i * k:i * k + k], cosines[i * k:i * k + k])) for i in range(n)]

    def save(self, path: Path) -> None:
        """Writes them as .npy, float32 (count, width)."""
        handle = self._use()
        handle.core.do(c.qkv_vectors_save, byref(self._struct), to_bytes(path, 'path'))


def listed(value: Any) -> tuple[bool, list[Any]]:
    """(was one, list)"""
    one = isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, '__array_interface__')
    if not one and not hasattr(value, '__iter__'):
        raise TypeError('an input or a list of them expected, found %s' % type(value).__name__)
    return one, [value] if one else list(value)


def ids_at(address: int, count: int) -> list[int]:
    return list((c_int32 * count).from_address(address)) if count else []


class TextTasks(Owned):
    """Tasks of models that read texts or series."""

    def label(self, i: int) -> str:
        """The name of class i."""
        handle = self._use()
        return to_str(handle.core.get(c.qkv_pipeline_label, handle.pointer,
                                      integer(i, 'class', 0, 2 ** 31 - 1)))

    # ---- generation

    def generate(self, prompt: Optional[str] = None, *,
                 on_text: Optional[Callable[[str], object]] = None, **options: Option) -> str:
        """Continues the prompt and returns what it adds. on_text receives the pieces of it as they
        are made; False ends the text. The options are those of `qkv generate`: tokens, greedy,
        temperature, top_k, top_p, seed ..; qkv.options("generate") lists them."""
        if options.get('count', 1) != 1 or options.get('lines') is not None:
            raise ArgumentError('generate makes one text: continuations expected for several')

        def on_piece(index: int, piece: str, token: Optional[int]) -> object:
            return on_text(piece) if on_text and token is not None and piece else None
        return self.continuations(prompt, on_piece=on_piece, **options)[0].text

    def continuations(self, prompt: Optional[str] = None, *,
                      on_piece: Optional[Callable[[int, str, Optional[int]], object]] = None,
                      **options: Option) -> list[Continuation]:
        """Continues the prompt `count` times, or each line of the file `lines`. on_piece receives
        (index of the continuation, text, id): the prompt with id None, then each token; False ends
        the call."""
        handle = self._use()
        if prompt is not None:
            as_utf8(prompt, 'prompt')  # a list would be taken for its last text
            options['prompt'] = prompt
        o = Options(handle.core, 'qkv_pipeline_generate', options)
        made: list[Continuation] = []

        def on_generated(_: Any, address: int) -> Any:
            piece = c.qkv_generated.from_address(address)
            text = text_at(piece.text, piece.len)
            if piece.kind == c.QKV_GENERATED_PROMPT:
                made.append(Continuation(text='', ids=[], next=[]))
                return on_piece(piece.index, text, None) if on_piece else None
            last = made[piece.index]
            if piece.kind == c.QKV_GENERATED_END:
                ids = c.qkv_ids.from_address(piece.ids)
                whole = c.qkv_text.from_address(piece.continuation)
                last.ids, last.text = ids_at(ids.data, ids.count), text_at(whole.data, whole.len)
                return on_piece(piece.index, text, -1) if on_piece and text else None
            if piece.next:
                last.next.append([NextToken(
                    id=t.id, text=text_at(t.text, t.len), probability=t.probability, drawn=t.drawn)
                    for t in (c.qkv_next_token * piece.next_count).from_address(piece.next)])
            return on_piece(piece.index, text, piece.id) if on_piece else None
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_generated_fn', on_generated)
            call(c.qkv_pipeline_generate, handle.pointer, o.reference, fn, None)
        return made

    # ---- translation

    if TYPE_CHECKING:
        @overload
        def translate(self, text: str, **options: Option) -> str: ...

        @overload
        def translate(self, text: Texts, **options: Option) -> list[str]: ...

    def translate(self, text: Union[str, Texts],
                  **options: Option) -> Union[str, list[str]]:
        """Translates a line, or a list of lines, by beam search. The options are those of
        `qkv translate`: beam, length_penalty, max_length, shortlist, ensemble .."""
        one, lines = listed(text)
        found = [best[0].text for best in self.translations(lines, **options)]
        return found[0] if one else found

    def translations(self, lines: Iterable[str], **options: Option) -> list[list[Translation]]:
        """The n_best translations of each line, the best first, with their scores."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_translate', options, handle.pointer)
        encoded = [as_utf8(line) for line in lines]
        if any(b'\n' in line for line in encoded):
            raise ArgumentError('translate: lines without newlines expected')
        text = b''.join(line + b'\n' for line in encoded)
        found: list[list[Translation]] = []

        def on_line(_: Any, line: int, address: int) -> None:
            t = c.qkv_translated.from_address(address)
            found.append([Translation(text=text_at(b.text.data, b.text.len), score=b.score)
                          for b in (c.qkv_translation * t.count).from_address(t.best)])
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_pipeline_translate_fn', on_line)
            call(c.qkv_pipeline_translate, handle.pointer, text, len(text), o.reference, fn, None)
        return found

    # ---- masked words

    if TYPE_CHECKING:
        @overload
        def fill(self, text: str, *, top_k: int = 5) -> list[list[Guess]]: ...

        @overload
        def fill(self, text: Texts, *, top_k: int = 5) -> list[list[list[Guess]]]: ...

    def fill(self, text: Union[str, Texts], *,
             top_k: int = 5) -> Union[list[list[Guess]], list[list[list[Guess]]]]:
        """What may stand where a text says [MASK]: for each mask of a text (or of each text of a
        list) the top_k likeliest tokens."""
        handle = self._use()
        one, texts = listed(text)
        o = Options(handle.core, 'qkv_pipeline_fill', {'top_k': top_k})
        encoded = [to_bytes(t) for t in texts]
        found: list[list[list[Guess]]] = [[] for _ in texts]

        def on_mask(_: Any, address: int) -> None:
            f = c.qkv_filled.from_address(address)
            found[f.text].append([
                Guess(text=text_at(b.text, b.len), id=b.id, probability=b.prob)
                for b in (c.qkv_filling * f.count).from_address(f.best)])
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_filled_fn', on_mask)
            call(c.qkv_pipeline_fill, handle.pointer, strings(encoded), len(encoded), o.reference,
                 fn, None)
        return found[0] if one else found

    # ---- classes

    def _classes(self, address: int, count: int) -> Classes:
        numbers = (c_float * count).from_address(address)
        order = sorted(range(count), key=lambda i: -numbers[i])
        return Classes(label=self.label(order[0]),
                       probabilities={self.label(i): numbers[i] for i in order})

    def _classify_texts(self, texts: Sequence[Pair]) -> list[Classes]:
        handle = self._use()
        pairs = (c.qkv_text_pair * max(len(texts), 1))()
        keep = []
        for pair, text in zip(pairs, texts):
            parts = [text] if isinstance(text, (str, bytes)) else list(text)
            if not 1 <= len(parts) <= 2:
                raise ArgumentError('classify: a text, or a pair of texts, expected')
            encoded = [Chars(as_utf8(part)) for part in parts]
            keep.append(encoded)
            pair.text, pair.len = encoded[0].address, len(encoded[0])
            if len(parts) == 2:
                pair.second, pair.second_len = encoded[1].address, len(encoded[1])
        found: list[Classes] = []

        def on_text(_: Any, address: int) -> None:
            t = c.qkv_classified.from_address(address)
            found.append(self._classes(t.probabilities, t.classes))
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_classified_fn', on_text)
            call(c.qkv_pipeline_classify_texts, handle.pointer, pairs, len(texts), fn, None)
        return found

    def classify_lines(self, path: Path) -> list[Classes]:
        """Labels every line of a file: a text, or two with a tab between; with a model of series
        its values, V1,V2,..."""
        handle = self._use()
        series = self.can('classify_series')
        function = (c.qkv_pipeline_classify_series if series else
                    c.qkv_pipeline_classify_lines)
        found: list[Classes] = []

        def on_text(_: Any, address: int) -> None:
            t = c.qkv_classified.from_address(address)
            found.append(self._classes(t.probabilities, t.classes))
        with Call(handle.core, handle) as call:
            fn = call.callback('qkv_classified_fn', on_text)
            call(function, handle.pointer, to_bytes(path, 'path'), fn, None)
        return found

    def can(self, what: str) -> bool:
        """Whether the model does that: "generate", "translate", "fill_mask", "classify_images" ..:
        the names of QKV_CAN_* in model.h."""
        bit = getattr(c, 'QKV_CAN_' + what.upper(), None)
        if not isinstance(bit, int):
            raise ArgumentError('can: no capability is called "%s"' % what)
        handle = self._use()
        with handle.core:
            return bool(c.qkv_model_can(c.qkv_pipeline_model(handle.pointer), bit))

    # ---- series

    def _series(self, function: Callable[..., Any], *arguments: Any) -> Series:
        handle = self._use()
        out = c.qkv_array()
        with Call(handle.core, handle) as call:
            call(function, handle.pointer, *arguments, byref(out))
        made = Series()
        made._take(handle.core, out, c.qkv_array_free)
        return made

    def _rows(self, rows: Values) -> tuple[Any, Any]:
        address, shape, keep = take(rows, '<f4', 'rows')
        if len(shape) != 2:
            raise ArgumentError('rows: (rows, columns) expected, found %s' % (shape,))
        array = c.qkv_array(ctx=self._use().core.pointer, ndim=2, count=shape[0] * shape[1],
                            data=address)
        array.shape[0], array.shape[1] = shape
        return array, keep

    def forecast(self, history: Given, *, horizon: int = 0) -> Series:
        """The rows that follow a history: a CSV file, or float32 rows (rows, columns) with the
        columns of training."""
        o = Options(self._use().core, 'qkv_pipeline_forecast', {'horizon': horizon})
        if isinstance(history, (str, bytes, os.PathLike)):
            return self._series(c.qkv_pipeline_forecast_file, to_bytes(history, 'history'),
                                o.reference, None)
        array, keep = self._rows(history)
        return self._series(c.qkv_pipeline_forecast, byref(array), o.reference)

    def fill_series(self, rows: Given) -> Series:
        """The rows with what is missing (NaN, or an empty cell of a CSV file) filled in."""
        if isinstance(rows, (str, bytes, os.PathLike)):
            return self._series(c.qkv_pipeline_fill_series_file, to_bytes(rows, 'rows'), None)
        array, keep = self._rows(rows)
        return self._series(c.qkv_pipeline_fill_series, byref(array))

    # ---- vectors

    def embed(self, what: Union[Path, Iterable[Path]], *, images: Optional[bool] = None) -> Vectors:
        """Vectors of texts, or of images by their paths (a file or a folder). images: which, of a
        model of both; None: images where the model reads no text."""
        handle = self._use()
        if images is None:
            images = self.can('embed_images')
        _, items = listed(what)
        if not items:
            raise ArgumentError('embed: a text or an image expected, found none')
        function = c.qkv_pipeline_embed_images if images else c.qkv_pipeline_embed_texts
        out = c.qkv_vectors()
        with Call(handle.core, handle) as call:
            call(function, handle.pointer, strings([to_bytes(i) for i in items]), len(items),
                 byref(out))
        return self._vectors(out)

    def embed_file(self, path: Path) -> Vectors:
        """Vectors of the lines of a file, or of the images there."""
        handle = self._use()
        out = c.qkv_vectors()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_embed_file, handle.pointer, to_bytes(path, 'path'), byref(out))
        return self._vectors(out)

    def _vectors(self, out: Any) -> Vectors:
        made = Vectors()
        made._take(self._use().core, out, c.qkv_vectors_free)
        return made
