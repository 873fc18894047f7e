"""Looking inside a model while it reads one input."""
from __future__ import annotations

import os
from ctypes import (addressof, byref, c_double, c_float, c_size_t, c_uint32, c_void_p,
                    string_at)

from . import c
from .context import Call, Core, Record, integer, text_at, to_bytes
from .errors import ArgumentError, MemoryError
from .images import Chars, Source
from .options import Options
from .pictures import ImageTasks
from .tensors import Tape
from .texts import Owner, Series, TextTasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Sequence, Union

    from .typed import Given, Option, Path, Shape


class Input:
    """qkv_look_input: a text, an image or a series, as the model reads it."""

    def __init__(self, model: TextTasks, value: Optional[Given], second: Optional[str] = None):
        self.struct = c.qkv_look_input()
        self._keep: list[Any] = []
        if second is not None:
            self.struct.second = self._chars(second)
        if value is None:
            return
        if isinstance(value, (str, bytes, os.PathLike)):
            self.struct.text = self.struct.series = self._chars(value)
            self.struct.image.path = self.struct.text
        elif model.can('forecast') or model.can('fill_series') or model.can('classify_series'):
            array, keep = model._rows(value)
            self.struct.rows = self._address(array)
            self._keep.append(keep)
        else:
            source = Source(value)
            self._keep.append(source)
            self.struct.image = source.struct

    def _chars(self, text: Path) -> int:
        self._keep.append(Chars(text))
        return int(self._keep[-1].address)

    def _address(self, struct: Any) -> int:
        self._keep.append(struct)
        return addressof(struct)

    @property
    def reference(self) -> Any:
        return byref(self.struct)


def save_drawing(core: Core, path: Path, function: Callable[..., Any], *arguments: Any) -> None:
    """Writes what function(.., &drawing) draws as .svg or .png."""
    out = c_void_p()
    with core:
        core.check(function(*arguments, byref(out)))
        try:
            core.check(c.qkv_drawing_save(out, to_bytes(path, 'path')))
        finally:
            c.qkv_drawing_destroy(out)


def parsed(text: bytes) -> Any:
    import json
    return json.loads(text)


def as_json(core: Core, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """The object whose members function(.., writer) writes."""
    writer = c.qkv_json_writer()
    with core:
        c.qkv_json_writer_init(byref(writer), core.pointer, -1)
        try:
            c.qkv_json_begin_object(byref(writer), None)
            function(*arguments, byref(writer))
            c.qkv_json_end_object(byref(writer))
            text = c.qkv_json_writer_text(byref(writer))
        finally:
            c.qkv_json_writer_free(byref(writer))
    if text is None:
        raise MemoryError('out of memory while the answer was written')
    made: dict[str, Any] = parsed(text)
    return made


def as_text(core: Core, function: Callable[..., Any], *arguments: Any) -> str:
    """The lines that function(.., string) writes."""
    string = c.qkv_str()
    with core:
        c.qkv_str_init(byref(string), core.pointer)
        try:
            core.check(function(*arguments, byref(string)))
            return text_at(string.data, string.len)
        finally:
            c.qkv_str_free(byref(string))


class Head(Record):
    """Means over the rows of a head's weights: docs/look.md."""

    __slots__ = ('layer', 'head', 'entropy', 'distance', 'first', 'previous', 'same', 'most')
    layer: int
    head: int
    entropy: float
    distance: float
    first: float
    previous: float
    same: float
    most: float


class Look(Owner):
    """What a model attends to: attentions(), heads(), row(), data(); draw(), page()."""

    def _attention(self, name: Optional[str]) -> tuple[int, Any]:
        choice = self._choose(name, None, None, None)
        return int(choice.attention), self._struct.attentions[choice.attention]

    def _choose(self, attention: Optional[str], layer: Optional[int], head: Optional[int],
                at: Optional[int]) -> Any:
        handle = self._use()
        choice = c.qkv_look_choice()
        handle.core.do(c.qkv_look_choose, byref(self._struct),
                       None if attention is None else to_bytes(attention), byref(choice))
        for name, value in (('layer', layer), ('head', head), ('position', at)):
            if value is not None:
                setattr(choice, name, integer(value, name, -1, 1 << 24))
        return choice

    @property
    def attentions(self) -> list[str]:
        """The names of the attentions: "attentions", "cross_attentions" .."""
        self._use()
        s = self._struct
        return [text_at(a.name) for a in s.attentions[:s.attentions_count]]

    def labels(self, attention: Optional[str] = None, *, keys: bool = False) -> list[str]:
        """What the queries of an attention are, or its keys: tokens, places of patches."""
        a = self._attention(attention)[1]
        axis = self._struct.axes[a.key if keys else a.query]
        return [text_at(label) for label in (c_void_p * axis.count).from_address(axis.labels)]

    def heads(self, attention: Optional[str] = None) -> list[Head]:
        """Figures of all heads of an attention."""
        a = self._attention(attention)[1]
        found = (c.qkv_head_figures * (a.layers * a.heads)).from_address(a.figures)
        return [Head(layer=i // a.heads, head=i % a.heads,
                     **{n: getattr(f, n) for n in Head.__slots__[2:]})
                for i, f in enumerate(found)]

    def row(self, *, attention: Optional[str] = None, layer: Optional[int] = None,
            head: Optional[int] = None, at: Optional[int] = None) -> list[float]:
        """The weights with which position `at` attends. layer -1: the rollout; head -1: the mean of
        the heads; None: the last layer, the mean of the heads, the last token, the class token or
        the patch in the middle."""
        choice = self._choose(attention, layer, head, at)
        a = self._struct.attentions[choice.attention]
        numbers = (c_double * self._struct.axes[a.key].count)()
        self._use().core.do(c.qkv_look_row, byref(self._struct), byref(choice), numbers)
        return list(numbers)

    def map(self, layer: int, head: int, attention: Optional[str] = None) -> list[list[float]]:
        """All rows of a head; weights below the option `least` are 0."""
        a = self._attention(attention)[1]
        if not 0 <= layer < a.layers or not 0 <= head < a.heads:
            raise ArgumentError('layer and head: below %d and %d expected, found %s and %s' % (
                a.layers, a.heads, layer, head))
        m = (c.qkv_head_map * (a.layers * a.heads)).from_address(a.maps)[layer * a.heads + head]
        rows = [[0.0] * m.keys for _ in range(m.rows)]
        start = (c_size_t * (m.rows + 1)).from_address(m.start)
        for i, row in enumerate(rows):
            n = start[i + 1] - start[i]
            if n:
                keys = (c_uint32 * n).from_address(m.key + 4 * start[i])
                weights = (c_float * n).from_address(m.weight + 4 * start[i])
                for k, weight in zip(keys, weights):
                    row[k] = weight
        return rows

    def data(self) -> dict[str, Any]:
        """Everything but the maps, as `qkv look --json` has it."""
        handle = self._use()
        choice = self._choose(None, None, None, None) if self.attentions else None
        return as_json(handle.core, c.qkv_look_json, byref(self._struct),
                       byref(choice) if choice else None)

    def text(self, **choice: Any) -> str:
        """A row as lines for a terminal. The arguments are those of row()."""
        handle = self._use()
        chosen = self._choose(*(choice.pop(n, None) for n in ('attention', 'layer', 'head', 'at')))
        if choice:
            raise TypeError('text: unknown argument %s' % sorted(choice)[0])
        return as_text(handle.core, c.qkv_look_text, byref(self._struct), byref(chosen))

    def draw(self, path: Path, *, attention: Optional[str] = None, layer: Optional[int] = None,
             head: Optional[int] = None, at: Optional[int] = None) -> None:
        """Writes a row as .svg or .png: over the image, where keys are its patches; else the map of
        all rows. The arguments are those of row()."""
        choice = self._choose(attention, layer, head, at)
        save_drawing(self._use().core, path, c.qkv_look_draw, byref(self._struct), byref(choice))

    def draw_heads(self, path: Path, attention: Optional[str] = None) -> None:
        """Writes small maps of all layers and heads."""
        save_drawing(self._use().core, path, c.qkv_look_draw_heads, byref(self._struct),
                     self._attention(attention)[0])

    def panels(self) -> list[str]:
        """The names of the drawings of what else is known."""
        self._use()
        s = self._struct
        return [text_at(p.name) for p in (c.qkv_look_panel * s.panel_count).from_address(
            s.panels)] if s.panel_count else []

    def panel(self, name: str, path: Optional[Path] = None) -> Any:
        """The numbers of a panel; path: where its drawing is written, too."""
        handle = self._use()
        with handle.core as core:
            found = c.qkv_look_panel_of(byref(self._struct), to_bytes(name))
            if not found:
                raise core.failure()
            panel = c.qkv_look_panel.from_address(found)
            if path is not None:
                core.check(c.qkv_drawing_save(panel.drawing, to_bytes(path, 'path')))
            return parsed(string_at(panel.json))

    def page(self, path: Path, *, title: Optional[str] = None, input: Optional[str] = None) -> None:
        """Writes a page on which heads, layers and positions are chosen."""
        handle = self._use()
        options = c.qkv_look_page_options()
        keep = []
        for name, value in (('title', title), ('input', input)):
            if value is not None:
                keep.append(Chars(value, name))
                setattr(options, name, keep[-1].address)
        handle.core.do(c.qkv_look_page, byref(self._struct), byref(options),
                       to_bytes(path, 'path'))


class Patch(Owner):
    """What becomes of an answer when one activation is another input's."""

    def data(self) -> dict[str, Any]:
        return as_json(self._use().core, c.qkv_patch_json, byref(self._struct))

    def text(self) -> str:
        return as_text(self._use().core, c.qkv_patch_text, byref(self._struct))

    def draw(self, path: Path, grid: int = 0) -> None:
        """Writes a grid of layers and positions as .svg or .png."""
        handle = self._use()
        if not 0 <= grid < self._struct.grid_count:
            raise ArgumentError('grid: an integer below %d expected, found %s' % (
                self._struct.grid_count, grid))
        save_drawing(handle.core, path, c.qkv_patch_draw, byref(self._struct), grid)

    def page(self, path: Path) -> None:
        self._use().core.do(c.qkv_patch_page, byref(self._struct), None, to_bytes(path, 'path'))


class Changed(Owner):
    """An input read by the model, and by the model with changes."""

    def data(self, at: int = -1) -> dict[str, Any]:
        return as_json(self._use().core, c.qkv_changed_json, byref(self._struct), at)

    def text(self, at: int = -1) -> str:
        return as_text(self._use().core, c.qkv_changed_text, byref(self._struct), at)

    def page(self, path: Path, at: int = -1) -> None:
        self._use().core.do(c.qkv_changed_page, byref(self._struct), at, None,
                            to_bytes(path, 'path'))


class Place(Record):
    """A place of a forward pass. weights: attention weights, for Tape.attention."""

    __slots__ = ('name', 'weights', 'shape')
    name: str
    weights: bool
    shape: Shape


class Looking(ImageTasks):
    """Looking inside a model. An input is a text, an image (a path, an Image or an array) or a
    series (a CSV file or rows), as the model reads it."""

    def look(self, input: Optional[Given] = None, second: Optional[str] = None,
             **options: Option) -> Look:
        """Runs the model once on the input. second: a translator's target, or a classifier's second
        text. The options are those of `qkv look`: capture, places, least, top, change .."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_look', options)
        given = Input(self, input, second)
        out = c.qkv_look()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_look, handle.pointer, given.reference, o.reference, byref(out))
        made = Look()
        made._take(handle.core, out, c.qkv_look_free)
        return made

    def probe(self, input: Given, begin: Callable[[Tape], object], second: Optional[str] = None,
              **options: Option) -> None:
        """Runs the model once on the input, with probes: begin(tape) adds them to the tape. One
        that matches no place is an ArgumentError."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_look', options)
        given = Input(self, input, second)
        with Call(handle.core, handle) as call:
            tapes: list[Tape] = []

            def on_begin(_: Any, tape: int) -> Any:
                tapes.append(Tape(handle.core, tape, call))
                begin(tapes[0])
                return c.QKV_OK
            fn = call.callback('qkv_pipeline_pass_fn', on_begin, stop=c.QKV_E_CANCELLED)
            try:
                call(c.qkv_pipeline_pass, handle.pointer, given.reference, o.reference, fn, None)
            finally:
                for tape in tapes:
                    tape._end()

    def places(self) -> list[Place]:
        """All places of the model's pass, in its order."""
        handle = self._use()
        out = c.qkv_look_places()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_places, handle.pointer, byref(out))
            try:
                return [Place(name=text_at(p.name), weights=p.weights,
                              shape=tuple(p.shape[:p.ndim]))
                        for p in (c.qkv_look_place * out.count).from_address(out.items)]
            finally:
                c.qkv_look_places_free(byref(out))

    def patch(self, clean: Given, corrupt: Given, **options: Option) -> Patch:
        """Activation patching: what the answer for `corrupt` becomes when one activation is
        `clean`'s. The options are those of `qkv look --patch`: answer, other, place, heads .."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_patch', options)
        first, other = Input(self, clean), Input(self, corrupt)
        out = c.qkv_patch()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_patch, handle.pointer, first.reference, other.reference,
                 o.reference, byref(out))
        made = Patch()
        made._take(handle.core, out, c.qkv_patch_free)
        return made

    def change(self, input: Given, changes: Union[str, Sequence[str]],
               second: Optional[str] = None,
               **options: Option) -> Changed:
        """The input read with and without a change, or several: ["h.5.attn.z head=2 zero"]."""
        handle = self._use()
        o = Options(handle.core, 'qkv_pipeline_look', dict(
            options, change=[changes] if isinstance(changes, str) else list(changes)))
        given = Input(self, input, second)
        out = c.qkv_changed()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_change, handle.pointer, given.reference, o.reference, byref(out))
        made = Changed()
        made._take(handle.core, out, c.qkv_changed_free)
        return made

    def vector(self, input: Given, place: str, minus: Optional[Given] = None) -> Series:
        """The mean over positions of what is at a place, less that of another input: for changes
        that add it."""
        handle = self._use()
        given = Input(self, input)
        less = None if minus is None else Input(self, minus)
        out = c.qkv_array()
        with Call(handle.core, handle) as call:
            call(c.qkv_pipeline_vector, handle.pointer, given.reference,
                 less.reference if less else None, to_bytes(place, 'place'), byref(out))
        made = Series()
        made._take(handle.core, out, c.qkv_array_free)
        return made
