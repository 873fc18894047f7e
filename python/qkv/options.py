"""Keyword arguments through the library's option tables: names, ranges and defaults are there."""
from __future__ import annotations

import os
from ctypes import addressof, byref, c_char_p, memmove, sizeof, create_string_buffer

from . import c
from .context import Core, Handle, Record, text_at, to_bytes, to_str
from .errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Optional

    from .typed import Option


class Setting(Record):
    """A keyword argument. name: as a keyword; key: in config.json; default: as text; expects: what
    it takes, in words; title: its group."""

    __slots__ = ('name', 'key', 'help', 'default', 'expects', 'title')
    name: str
    key: Optional[str]
    help: str
    default: Optional[str]
    expects: str
    title: str


def plain(name: str, value: Option) -> Any:
    """A value as JSON has it: a list of integers is one value ("1,2,4")."""
    if isinstance(value, (os.PathLike, bytes)):
        return os.fsdecode(value)
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            return ','.join(map(str, value))
        return [plain(name, v) for v in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    item = getattr(value, 'item', None)  # a number of NumPy
    if item is not None:
        return plain(name, item())
    raise ArgumentError('%s: a text, a path, a number, True, False or a list of them expected, '
                        'found %s' % (name, type(value).__name__))


def settings_json(given: Mapping[str, Option]) -> bytes:
    """Keyword arguments as a JSON object."""
    import json
    made = {keyword(name): plain(name, value) for name, value in given.items()}
    return to_bytes(json.dumps(made).encode(), 'settings')


def keyword(name: str) -> str:
    """"class_", which Python has another use for, is "class"."""
    return name[:-1] if name.endswith('_') else name


def texts(name: str, value: Option) -> Iterator[str]:
    made = plain(name, value)
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, bool):
            yield 'true' if item else 'false'
        elif item is not None:
            yield repr(item) if isinstance(item, float) else str(item)


def rows_of(table: int) -> list[Any]:
    t = c.qkv_option_table.from_address(table)
    return [c.qkv_option.from_address(t.rows + i * sizeof(c.qkv_option)) for i in range(t.count)]


def _name(row: Any) -> bytes:
    return to_bytes(text_at(row.flag) or text_at(row.key).split('|')[0])


class Options:
    """A struct of options, filled from keyword arguments."""

    def __init__(self, core: Core, call: str, given: Mapping[str, Option],
                 pipeline: Optional[int] = None):
        """call: "qkv_pipeline_generate": of whose call_table() and call_options. pipeline: one that
        the defaults depend on."""
        self.struct = getattr(c, call + '_options')()
        self.core = core
        table = getattr(c, call + '_table')()
        with core:
            self._handle: Handle = core.create(c.qkv_options_create, c.qkv_options_destroy,
                                               core.pointer)
            bound = type(self.struct)()
            core.check(c.qkv_options_bind(self._handle.pointer, table, byref(bound)))
            for name, value in given.items():
                for text in texts(name, value):
                    core.check(c.qkv_options_set(self._handle.pointer,
                                                 to_bytes(keyword(name), 'name'),
                                                 to_bytes(text, name)))
            if pipeline is None:
                memmove(byref(self.struct), byref(bound), sizeof(bound))
            else:
                self._take_given(table, bound, getattr(c, call + '_defaults')(pipeline))

    def _take_given(self, table: int, bound: Any, defaults: Any) -> None:
        memmove(byref(self.struct), byref(defaults), sizeof(defaults))
        names = {getattr(c, 'QKV_OPT_' + k): size for k, size in (
            ('INT', 4), ('ENUM', 4), ('SIZE', 8), ('U64', 8), ('REAL', 8), ('BOOL', 1),
            ('STRING', 8), ('LIST', sizeof(c.qkv_strings)), ('SIZES', sizeof(c.qkv_sizes)))}
        for row in rows_of(table):
            if c.qkv_options_given(self._handle.pointer, _name(row)):
                memmove(addressof(self.struct) + row.offset, addressof(bound) + row.offset,
                        names[row.type])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.struct, name)

    @property
    def reference(self) -> Any:
        return byref(self.struct)


def describe(table: Optional[int], presets: Optional[int] = None) -> list[Setting]:
    """The rows of an option table."""
    found = []
    title = text_at(c.qkv_option_table.from_address(table).title) if table else ''
    for row in rows_of(table) if table else []:
        expects = create_string_buffer(c.QKV_OPTION_TEXT)
        c.qkv_option_expects(byref(row), expects)
        preset = c.qkv_preset_find(presets, byref(row))
        initial = c.qkv_preset.from_address(preset).value if preset else row.initial
        found.append(Setting(
            name=(text_at(row.flag) or text_at(row.key).split('|')[0]).replace('-', '_'),
            key=text_at(row.key) or None, help=text_at(row.help),
            default=text_at(initial) if initial else None,
            expects=to_str(expects.value), title=title))
    return found


def values_of(table: int, address: int) -> dict[str, str]:
    """The values of a struct that a table describes, by key, as text."""
    found = {}
    buffer = create_string_buffer(c.QKV_OPTION_TEXT)
    for row in rows_of(table):
        if row.key:
            c.qkv_option_text(byref(row), address, buffer)
            found[text_at(row.key).split('|')[0]] = to_str(buffer.value)
    return found


def strings(items: list[bytes]) -> Any:
    """const char *[] of texts."""
    return (c_char_p * max(len(items), 1))(*items)
