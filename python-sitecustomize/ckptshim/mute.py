"""What a recompute prints, logs, warns of or tells a tracer is not new: not again.

An interrupt of the job's may strike while the streams are exchanged and leave
ours in their place. It swallows nothing any more once its ``mute`` is gone.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from . import plain


class Muted:
    """A stream that swallows what this thread writes and passes on the rest."""

    def __init__(self, stream: Any, owner: "mute") -> None:
        self._stream = stream
        self._owner = weakref.ref(owner)
        self._thread = threading.get_ident()

    def write(self, text: Any) -> Any:
        """As the stream's own."""
        owner = self._owner()
        if owner is not None and owner.on and threading.get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class mute:
    """``with mute():`` for sys.stdout and sys.stderr."""

    on = True

    def __enter__(self) -> None:
        self._held = sys.stdout, sys.stderr
        self._put = [None if s is None else Muted(s, self) for s in self._held]
        sys.stdout, sys.stderr = self._put

    def __exit__(self, *_: Any) -> None:
        self.on = False
        if sys.stdout is self._put[0]:
            sys.stdout = self._held[0]
        if sys.stderr is self._put[1]:
            sys.stderr = self._held[1]


class untraced:
    """``with untraced():`` without the job's tracer and profiler, ``coverage`` or a
    debugger, on this thread. Those that cannot be put back from Python stay.
    """

    def __enter__(self) -> None:
        self._held = sys.gettrace(), sys.getprofile()
        trace, profile = self._held
        if callable(trace):
            sys.settrace(None)
        if callable(profile):
            sys.setprofile(None)

    def __exit__(self, *_: Any) -> None:
        trace, profile = self._held
        if callable(trace) and sys.gettrace() is None:
            sys.settrace(trace)
        if callable(profile) and sys.getprofile() is None:
            sys.setprofile(profile)


def once(original: Any, first: Any, args: Any, kwargs: Any) -> None:
    """In place of what handles a log record or shows a warning."""
    if not plain.again.depth:
        original(first, *args, **kwargs)
