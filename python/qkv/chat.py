"""Conversations with a language model."""
from __future__ import annotations

from ctypes import byref, c_void_p, string_at

from . import c
from .context import Call, Handle, Owned, Record, text_at, to_bytes, to_str
from .errors import ArgumentError
from .options import Options
from .texts import ids_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Union

    from .typed import Option

    Message = Mapping[str, object]
    Messages = Union[Mapping[str, object], Sequence[Message]]

_ENDS: dict[str, Literal['stop', 'length', 'interrupted']] = {
    'QKV_CHAT_STOPPED': 'stop', 'QKV_CHAT_LENGTH': 'length', 'QKV_CHAT_INTERRUPTED': 'interrupted'}


class Answer(Record):
    """An answer. end: "stop", "length" (of the option `tokens`, or of the model), or "interrupted".
    prompt_tokens: of the conversation before it; reused_tokens: of these, not computed again."""

    __slots__ = ('text', 'ids', 'end', 'prompt_tokens', 'reused_tokens')
    text: str
    ids: list[int]
    end: Literal['stop', 'length', 'interrupted']
    prompt_tokens: int
    reused_tokens: int


class Chat(Owned):
    """A conversation, which model.chat() begins. It keeps the model open.

        chat = model.chat(system="Be brief.")
        print(chat.say("Is ice cold?").text)
    """

    def __init__(self, model: Handle, options: dict[str, Any]):
        if isinstance(options.get('variables'), dict):
            options['variables'] = _json('variables', options['variables'])
        o = Options(model.core, 'qkv_chat', options)
        out = c_void_p()
        with Call(model.core, model) as call:
            call(c.qkv_chat_open, byref(out), model.pointer, o.reference)
        self._handle = Handle(model.core, out.value, c.qkv_chat_close, model)

    def say(self, text: str, on_text: Optional[Callable[[str], object]] = None) -> Answer:
        """Adds a message, and returns the model's answer. on_text receives the pieces of it as they
        are made; False ends it. After an exception the conversation is as it was before."""
        return self._answer(c.qkv_chat_say, to_bytes(text), on_text=on_text)

    def answer(self, messages: Messages,
               on_text: Optional[Callable[[str], object]] = None) -> Answer:
        """Replaces the conversation by another and answers it. messages: [{"role": "user",
        "content": "Hi"}, ..], or {"messages": [..], ..} with variables of the template."""
        text = _conversation(messages)
        return self._answer(c.qkv_chat_answer, b'messages', text, len(text), on_text=on_text)

    def text(self, messages: Messages) -> str:
        """The text that the model would continue, were it to answer the conversation."""
        handle, text, out = self._use(), _conversation(messages), c.qkv_text()
        with handle.core as core:
            try:
                core.check(c.qkv_chat_show(handle.pointer, b'messages', text, len(text),
                                           byref(out)))
                return text_at(out.data, out.len)
            finally:
                c.qkv_text_free(byref(out), core.pointer)

    def reset(self) -> None:
        """Forgets all messages but the system's."""
        handle = self._use()
        handle.core.do(c.qkv_chat_reset, handle.pointer)

    def _answer(self, function: Callable[..., int], *arguments: Any,
                on_text: Optional[Callable[[str], object]]) -> Answer:
        handle, made = self._use(), Answer()

        def on_piece(_: Any, address: int) -> Any:
            piece = c.qkv_chat_piece.from_address(address)
            text = to_str(string_at(piece.text, piece.len))
            if piece.kind == c.QKV_CHAT_TEXT:
                return on_text(text) if on_text and text else None
            ids = c.qkv_ids.from_address(piece.ids)
            made.text, made.ids = text, ids_at(ids.data, ids.count)
            made.end = next(end for name, end in _ENDS.items() if getattr(c, name) == piece.reason)
            made.prompt_tokens, made.reused_tokens = piece.prompt, piece.reused
            return None
        with Call(handle.core, handle.owner) as call:
            call(function, handle.pointer, *arguments, call.callback('qkv_chat_fn', on_piece), None)
        return made


def _conversation(messages: Messages) -> bytes:
    return _json('messages', messages if isinstance(messages, dict) else {
        'messages': messages}).encode()


def _json(name: str, value: object) -> str:
    import json
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError('%s: %s' % (name, error)) from None
