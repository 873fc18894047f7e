"""Tokenizers."""
from __future__ import annotations

import os
from ctypes import byref, c_int32, c_void_p, string_at

from . import c
from .context import (Call, Context, Handle, Owned, as_utf8, core_of, integer, to_bytes,
                      to_str)
from .errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Optional

    from .typed import Path, Paths, Text

MOST = 2 ** 31 - 1


class Tokenizer(Owned):
    """Text to ids and back: Tokenizer("runs/novel"), or model.tokenizer."""

    def __init__(self, directory: Path, *, ctx: Optional[Context] = None):
        core = core_of(ctx)
        self._handle = core.create(c.qkv_tokenizer_load, c.qkv_tokenizer_destroy, core.pointer,
                                   to_bytes(directory, 'directory'))

    @classmethod
    def _of(cls, handle: Handle, pointer: int) -> Tokenizer:
        """The tokenizer of a model, which it keeps open."""
        made = cls.__new__(cls)
        made._handle = Handle(handle.core, pointer, None, handle)
        return made

    @property
    def size(self) -> int:
        """The greatest id + 1."""
        handle = self._use()
        return int(handle.core.get(c.qkv_tokenizer_vocab_size, handle.pointer))

    def encode(self, text: Text, *, special: bool = False, plain: bool = False,
               target: bool = False) -> list[int]:
        """The ids of a text. special: with the special tokens around it. plain: special tokens that
        the text spells out are plain text. target: a text in the target language (translators)."""
        handle = self._use()
        data = as_utf8(text)
        flags = (c.QKV_ENCODE_ADD_SPECIAL * special + c.QKV_ENCODE_PLAIN * plain
                 + c.QKV_ENCODE_TARGET * target)
        ids = c.qkv_ids()
        with handle.core as core:
            try:
                core.check(c.qkv_tokenizer_encode(handle.pointer, data, len(data), flags,
                                                  byref(ids)))
                return list((c_int32 * ids.count).from_address(ids.data)) if ids.count else []
            finally:
                c.qkv_ids_free(byref(ids), core.pointer)

    def decode_bytes(self, ids: Iterable[int], *, special: bool = True) -> bytes:
        """The bytes of ids. special: with the special tokens among them."""
        handle = self._use()
        made = [integer(i, 'ids', 0, MOST) for i in ids]
        array = (c_int32 * max(len(made), 1))(*made)
        text = c.qkv_text()
        flags = 0 if special else c.QKV_DECODE_SKIP_SPECIAL
        with handle.core as core:
            try:
                core.check(c.qkv_tokenizer_decode(handle.pointer, array, len(made), flags,
                                                  byref(text)))
                return string_at(text.data, text.len) if text.len else b''
            finally:
                c.qkv_text_free(byref(text), core.pointer)

    def decode(self, ids: Iterable[int], *, special: bool = True) -> str:
        """The text of ids; U+FFFD for bytes that are no character."""
        return self.decode_bytes(ids, special=special).decode('utf-8', 'replace')

    def token(self, id: int) -> Optional[str]:
        """The token as the files spell it; None: there is none of that id."""
        handle = self._use()
        found = handle.core.get(c.qkv_tokenizer_token, handle.pointer,
                                integer(id, 'id', 0, MOST), None)
        return None if found is None else to_str(found)

    def id(self, token: str) -> Optional[int]:
        """The id of the token that the files spell so; None: there is none."""
        handle = self._use()
        data = as_utf8(token, 'token')
        found = handle.core.get(c.qkv_tokenizer_id, handle.pointer, data, len(data))
        return found if found >= 0 else None

    def special(self, role: str) -> Optional[int]:
        """The id of a special token: "eos", "bos", "pad", "unk", "cls", "sep" or "mask"."""
        handle = self._use()
        name = 'QKV_TOKEN_' + role.upper()
        if not hasattr(c, name):
            raise ArgumentError('role: eos, bos, pad, unk, cls, sep or mask expected, found "%s"'
                                % role)
        found = handle.core.get(c.qkv_tokenizer_special, handle.pointer, getattr(c, name))
        return found if found >= 0 else None

    def save(self, directory: Path) -> None:
        """Writes the files that Hugging Face's AutoTokenizer loads."""
        handle = self._use()
        handle.core.do(c.qkv_tokenizer_save, handle.pointer, to_bytes(directory, 'directory'))

    @classmethod
    def train(cls, files: Paths, *, kind: str = 'bpe', vocab: Optional[int] = None,
              min_count: Optional[int] = None, coverage: Optional[float] = None,
              keep_case: bool = False, add_eos: bool = False,
              ctx: Optional[Context] = None) -> Tokenizer:
        """Trains a tokenizer on text files. kind: "char", "bpe", "wordpiece", "unigram" or
        "sentencepiece_bpe"."""
        core = core_of(ctx)
        constant = 'QKV_TOKENIZER_' + kind.replace('-', '_').upper()
        if not isinstance(getattr(c, constant, None), int):
            raise ArgumentError('kind: char, bpe, wordpiece, unigram or sentencepiece_bpe expected,'
                                ' found "%s"' % kind)
        options = c.qkv_tokenizer_defaults(getattr(c, constant))
        options.keep_case, options.add_eos = keep_case, add_eos
        if vocab is not None:
            options.vocab = integer(vocab, 'vocab', 0, MOST)
        if min_count is not None:
            options.min_count = integer(min_count, 'min_count', 0, MOST)
        if coverage is not None:
            options.coverage = coverage
        trainer = core.create(c.qkv_tokenizer_trainer_create, c.qkv_tokenizer_trainer_destroy,
                              core.pointer, byref(options))
        with Call(core) as call:
            for file in [files] if isinstance(files, (str, bytes, os.PathLike)) else files:
                call(c.qkv_tokenizer_trainer_add_file, trainer.pointer, to_bytes(file, 'files'))
        made = cls.__new__(cls)
        with core:
            out = c_void_p()
            core.check(c.qkv_tokenizer_trainer_finish(trainer.pointer, byref(out)))
            made._handle = Handle(core, out.value, c.qkv_tokenizer_destroy)
        return made
