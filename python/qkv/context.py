"""Contexts, the objects made on them, and calls of the library."""
from __future__ import annotations

import os
import sys
from _signal import SIGINT, getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from _thread import RLock, allocate_lock, get_native_id
from ctypes import addressof, byref, c_void_p, create_string_buffer, string_at

from . import c
from .errors import BY_STATUS, ArgumentError, CancelledError, ClosedError, Error
from .signals import SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Literal, Optional, TypeVar

    from .typed import Path, Text

    Self = TypeVar('Self', bound='Owned')


class Record:
    """Named values."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: Any):
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return cls.__slots__

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name, None) for name in self._names())

    def __repr__(self) -> str:
        return '%s(%s)' % (type(self).__name__, ', '.join(
            '%s=%r' % pair for pair in zip(self._names(), self._values())))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    __hash__ = None  # type: ignore


class Event(Record):
    """What a long call reports. kind "note": text is a sentence; "progress": `done` of `total`
    (0: unknown) units of the work that text names."""

    __slots__ = ('kind', 'text', 'unit', 'done', 'total')
    kind: Literal['note', 'progress']
    text: str
    unit: str
    done: int
    total: int


# ---- texts -------------------------------------------------------------------------------------

def to_bytes(text: Path, what: str = 'text') -> bytes:
    """A text or a path as C takes it, before the 0 byte that ends it."""
    if isinstance(text, (bytes, bytearray)):
        made = bytes(text)
    elif isinstance(text, (str, os.PathLike)):
        made = os.fsencode(text)
    else:
        raise TypeError('%s: a text or a path expected, found %s' % (what, type(text).__name__))
    if b'\0' in made:
        raise ArgumentError('%s: a text without 0 bytes expected' % what)
    return made


def as_utf8(text: Text, what: str = 'text') -> bytes:
    """A text that C takes with its length."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode('utf-8')
    raise TypeError('%s: a text expected, found %s' % (what, type(text).__name__))


def integer(value: Any, what: str, least: int, most: int) -> int:
    """An integer, of Python or NumPy, in a range."""
    made = value.__index__() if hasattr(value, '__index__') else least - 1
    if not least <= made <= most:
        raise ArgumentError('%s: an integer from %d to %d expected, found %r' % (
            what, least, most, value))
    return int(made)


def to_str(text: Optional[bytes]) -> str:
    return text.decode('utf-8', 'replace') if text else ''


def text_at(address: Optional[int], length: int = -1) -> str:
    """The text at an address: of so many bytes, or up to a 0 byte."""
    return to_str(string_at(address, length)) if address else ''


def version() -> str:
    """The library's version."""
    return to_str(c.qkv_version(None))


# ---- objects of the library --------------------------------------------------------------------

class Handle:
    """A C object. It is destroyed when nothing refers to it: neither the object of Python that
    stands for it, nor a call that goes on, nor an array that shows its memory, nor an object that
    has it as its owner. destroy None: the owner destroys it."""

    __slots__ = ('core', 'pointer', 'owner', 'busy', '_destroy', '_number')

    def __init__(self, core: Core, pointer: Any, destroy: Optional[Callable[[Any], Any]],
                 owner: Optional[Handle] = None):
        self.core = core
        self.pointer = pointer
        self.owner = owner
        self.busy = False
        self._destroy = destroy
        self._number = core.number = core.number + 1
        core.live[self._number] = owner._number if owner else 0

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.core.bury(self._destroy, self.pointer, self._number)


class Core:
    """A context of the library: one thread uses it at a time."""

    def __init__(self, options: Any = None):
        out = c_void_p()
        self.pointer = None
        self.lock = RLock()
        self.number = 0  # of the newest object
        self.live: dict[int, int] = {}  # objects that are not destroyed yet, and their owners
        self.dead: list[tuple[Optional[Callable[[Any], Any]], Any, int]] = []
        self.on_event: Optional[Callable[[Event], object]] = None
        self.call: Optional[Call] = None  # the innermost that goes on
        self.cancelled = False
        self.dropped = False
        self._masks: tuple[Any, ...] = ()  # of the thread that has the lock
        self.interrupt: Optional[BaseException] = None  # what Ctrl-C raised within a call
        self._handler: Any = None  # of SIGINT, while the main thread is in a call
        self._waits = False        # the main thread, for another thread's call
        status = c.qkv_context_create(byref(out), byref(options) if options else None)
        if status:
            raise self.error(status, to_str(c.qkv_status_text(status)))
        self.pointer = out.value

    def __del__(self) -> None:
        if self.pointer and not sys.is_finalizing():
            self.clear()
            self.dropped = True
            self._end()

    def bury(self, destroy: Optional[Callable[[Any], Any]], pointer: Any, number: int) -> None:
        """Destroys an object now, or, while another thread is in a call, after that call."""
        self.dead.append((destroy, pointer, number))
        took = self._take_interrupts()
        if self.lock.acquire(blocking=False):
            try:
                self.clear()
            finally:
                self.lock.release()
        if took:
            self._give_back_interrupts()
            self.raise_interrupt()

    def clear(self) -> None:
        # The collector of cycles finalizes a context, objects and their owners in any order.
        while self.dead:
            owners = set(self.live.values())
            at = next((i for i, dead in enumerate(self.dead) if dead[2] not in owners), None)
            if at is None:
                break
            destroy, pointer, number = self.dead.pop(at)
            del self.live[number]
            if destroy:
                destroy(pointer)
        self._end()

    def _end(self) -> None:
        if self.dropped and not self.live:
            pointer, self.pointer = self.pointer, None
            if pointer:
                c.qkv_context_destroy(pointer)

    def __enter__(self) -> Core:
        if self._take_interrupts():
            try:
                self._waits = True
                self.lock.acquire()
                self._waits = False
            except BaseException:
                self._give_back_interrupts()
                raise
        else:
            self.lock.acquire()
        self._masks = (*self._masks, SIGNALS.block())
        return self

    def __exit__(self, *raised: Any) -> None:
        self.clear()
        before, self._masks = self._masks[-1], self._masks[:-1]
        SIGNALS.restore(before)
        try:
            if not self._masks and self._handler and get_native_id() == os.getpid():
                self._give_back_interrupts()
                self.raise_interrupt(*raised)
        finally:
            self.lock.release()

    # Python runs a signal's handler as a function begins or ends, in __enter__ and __exit__, too,
    # which what it raises would leave half done. So the main thread keeps what SIGINT's raises
    # until the end of the outermost call.
    def _take_interrupts(self) -> bool:
        """Returns whether they are to be given back."""
        handler = getsignal(SIGINT)
        if self._handler or get_native_id() != os.getpid() or not callable(handler):
            return False
        self._handler = handler
        try:
            set_handler(SIGINT, self._interrupted)
        except BaseException:
            self._give_back_interrupts()
            raise
        return True

    def _interrupted(self, number: int, frame: Any) -> None:
        try:
            self._handler(number, frame)
        except BaseException as error:  # KeyboardInterrupt
            if self._waits:
                if not self.lock.acquire(blocking=False):  # another thread has it
                    raise
                self.lock.release()
            self.interrupt = self.interrupt or error

    def _give_back_interrupts(self) -> None:
        self._waits = False
        try:
            set_handler(SIGINT, self._handler)
        finally:
            self._handler = None

    def raise_interrupt(self, *raised: Any) -> None:
        """Raises what Ctrl-C did, unless an exception is on its way."""
        error, self.interrupt = self.interrupt, None
        if error and not (raised and raised[0]):
            raise error

    @staticmethod
    def error(status: int, message: str) -> Error:
        for name, made in BY_STATUS.items():
            if getattr(c, name) == status:
                return made(message)
        return Error(message)

    def failure(self) -> Error:
        """The last failure as an exception."""
        status = c.qkv_context_status(self.pointer)
        message = to_str(c.qkv_context_message(self.pointer))
        return self.error(status, message or to_str(c.qkv_status_text(status)))

    def check(self, status: int) -> None:
        if status:
            message = to_str(c.qkv_context_message(self.pointer))
            raise self.error(status, message or to_str(c.qkv_status_text(status)))

    def do(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function that returns a status."""
        with self:
            self.check(function(*arguments))

    def get(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self:
            return function(*arguments)

    def create(self, function: Callable[..., Any], destroy: Callable[[Any], Any],
               *arguments: Any) -> Handle:
        """Calls function(&out, arguments ..) and returns what it made."""
        out = c_void_p()
        with self:
            self.check(function(byref(out), *arguments))
            return Handle(self, out.value, destroy)


class Call:
    """A call that takes long: events and other callbacks reach Python, an exception in one of them
    ends the call and comes out of it, and so does Ctrl-C.

        with Call(core) as call:
            fn = call.callback('qkv_filled_fn', function)
            call(c.qkv_pipeline_fill, .., fn, None)
    """

    def __init__(self, core: Core, busy: Optional[Handle] = None,
                 on_event: Optional[Callable[[Event], object]] = None):
        self.core = core
        self.error: Optional[BaseException] = None
        self.on_event = on_event
        self._busy = busy
        self._callbacks: list[Any] = []  # C has their addresses

    def __enter__(self) -> Call:
        self.core.__enter__()
        if self._busy and self._busy.busy:
            self.core.__exit__()
            raise Error('the model is in use by the call that this function was called from')
        if self._busy:
            self._busy.busy = True
        self._outer = self.core.call
        if self._outer is None:
            self.core.cancelled = False
        self.core.call = self
        self._listen(self.callback('qkv_event_fn', self._event))
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._busy:
            self._busy.busy = False
        self.core.call = self._outer
        self._listen(self._outer._callbacks[0] if self._outer else None)
        self._callbacks = []  # they refer to this object
        self.core.__exit__(*raised)

    def _listen(self, function: Any) -> None:
        c.qkv_context_on_event(self.core.pointer, function, None)

    def going_on(self) -> bool:
        call: Optional[Call] = self
        while call and not call.error:
            call = call._outer
        return call is None and not self.core.cancelled and not self.core.interrupt

    def _event(self, _: Any, address: int) -> Any:
        # That Python runs is enough for its signal handlers: QKV_EVENT_WORKING.
        listener = self.on_event or self.core.on_event
        event = c.qkv_event.from_address(address)
        if event.kind == c.QKV_EVENT_WORKING or not listener:
            return None
        return listener(Event(
            kind='note' if event.kind == c.QKV_EVENT_NOTE else 'progress',
            text=text_at(event.text), unit=text_at(event.unit), done=event.done,
            total=event.total))

    def callback(self, kind: str, function: Callable[..., Any], stop: Any = False,
                 go_on: Any = True) -> Any:
        """A function for C. It returns `stop` after False, an exception or Ctrl-C, `go_on` after
        None, else the function's result. stop: a value, or a function of the arguments."""
        def guarded(*arguments: Any) -> Any:
            ended = stop(*arguments) if callable(stop) else stop
            try:
                SIGNALS.restore(self.core._masks[0])  # processes that are started here inherit it
                result = function(*arguments) if self.going_on() else False
            except BaseException as error:
                self.error = self.error or error
                return ended
            finally:
                SIGNALS.block()
            if result is False or not self.going_on():
                return ended
            return go_on if result is None else result
        made = c.callback(kind)(guarded)
        self._callbacks.append(made)
        return made

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> None:
        status = function(*arguments)
        if self.error:
            error, self.error = self.error, None
            raise error
        self.core.raise_interrupt()
        if status and self.core.cancelled:
            raise CancelledError('cancelled')
        self.core.check(status)


class Owned:
    """An object of the library. close() is optional: it is closed when nothing refers to it."""

    _handle: Optional[Handle] = None

    def _use(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise ClosedError('this %s is closed' % type(self).__name__.lower())
        return handle

    def close(self) -> None:
        """Frees it, once no call uses it and no array shows its memory. Closing twice is fine."""
        self._handle = None

    @property
    def closed(self) -> bool:
        return self._handle is None

    def __enter__(self: Self) -> Self:
        self._use()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Context:
    """Threads, instruction sets, and the last error. One thread uses a context at a time; another
    one waits. For work in parallel make a context for each thread.

    threads: 0: one per core. isa: bits (c.QKV_ISA_REFERENCE ..); 0: all that the processor has.
    dtype: of products in training, "f32", "bf16" or "auto". device: where to compute, "cpu", "cuda"
    or "cuda:N". on_event: receives an Event; False cancels the call.
    """

    def __init__(self, *, threads: int = 0, isa: int = 0, dtype: str = 'f32',
                 device: str = 'cpu',
                 on_event: Optional[Callable[[Event], object]] = None):
        options = c.qkv_context_defaults()
        products = getattr(c, 'QKV_PRODUCTS_' + str(dtype).upper(), None)
        if products is None:
            raise ArgumentError('dtype: f32, bf16 or auto expected, found "%s"' % dtype)
        said = 'threads: an integer from 0 to 1024 expected, found %s' % (threads,)
        try:
            options.threads, options.isa, options.products = threads, isa, products
            if options.threads != threads:  # too large for C
                raise ArgumentError(said)
            self._core = Core(options)
        except (TypeError, ArgumentError):
            raise ArgumentError(said) from None
        if device != 'cpu':  # one that does not open says why, which a context must be there for
            name = create_string_buffer(to_bytes(device, 'device'))
            options.device = addressof(name)
            self._core.do(c.qkv_context_configure, self._core.pointer, byref(options))
        self._core.on_event = on_event

    @property
    def on_event(self) -> Optional[Callable[[Event], object]]:
        return self._core.on_event

    @on_event.setter
    def on_event(self, function: Optional[Callable[[Event], object]]) -> None:
        self._core.on_event = function

    @property
    def threads(self) -> int:
        return int(self._core.get(c.qkv_context_threads, self._core.pointer))

    @property
    def card(self) -> Optional[str]:
        """The name of the card that it computes on; None: it is the processor."""
        name = self._core.get(c.qkv_machine_card, self._core.pointer)
        return to_str(name) if name else None

    def cancel(self) -> None:
        """Cancels the call that goes on, from any thread: CancelledError there. Training saves and
        returns with `stopped`."""
        self._core.cancelled = True

    def memory(self) -> int:
        """Bytes that the library's objects of this context take."""
        return int(self._core.get(c.qkv_context_memory, self._core.pointer).live_bytes)


_default: Optional[Context] = None
_default_lock = allocate_lock()


def default_context() -> Context:
    """The context of calls that name none."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default


def core_of(ctx: Optional[Context]) -> Core:
    if ctx is None:
        ctx = default_context()
    if not isinstance(ctx, Context):
        raise TypeError('ctx: a Context expected, found %s' % type(ctx).__name__)
    return ctx._core
