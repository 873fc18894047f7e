"""The signals that threads do not take while they compute."""
from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from ctypes import CDLL, create_string_buffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Signals:
    """Threads that compute block signals, and so do those that OpenMP starts for them: oneDNN's
    kernels use the stack pointer for other things, and a handler's frame would overwrite memory. A
    thread that waits takes the signals; Python's handlers run in the main thread as always."""

    SYNCHRONOUS = (4, 5, 6, 7, 8, 11, 31)  # SIGILL, TRAP, ABRT, BUS, FPE, SEGV, SYS
    BLOCK, SET = 0, 2                      # SIG_BLOCK, SIG_SETMASK of Linux
    BYTES = 128                            # of a sigset_t

    def __init__(self) -> None:
        libc = CDLL(None)
        self._mask = libc.pthread_sigmask
        self._blocked = create_string_buffer(self.BYTES)
        libc.sigfillset(self._blocked)
        for number in self.SYNCHRONOUS:
            libc.sigdelset(self._blocked, number)
        self._process = 0  # whose taker there is: a fork has none

    def block(self) -> Any:
        """Blocks them in this thread; returns what was blocked before."""
        if self._process != os.getpid():
            self._process = os.getpid()
            forever = allocate_lock()
            forever.acquire()
            start_new_thread(forever.acquire, ())
        before = create_string_buffer(self.BYTES)
        self._mask(self.BLOCK, self._blocked, before)
        return before

    def restore(self, before: Any) -> None:
        self._mask(self.SET, before, None)


SIGNALS = Signals()
