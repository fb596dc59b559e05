"""What a recompute prints was printed before: it is not printed again."""

from __future__ import annotations

import sys
import threading
from typing import Any


class Muted:
    """A stream that swallows what this thread writes and passes on the rest."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    def write(self, text: Any) -> Any:
        """As the stream's own."""
        if threading.get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class mute:
    """``with mute():`` for sys.stdout and sys.stderr."""

    def __enter__(self) -> None:
        self._held = sys.stdout, sys.stderr
        self._put = [None if s is None else Muted(s) for s in self._held]
        sys.stdout, sys.stderr = self._put

    def __exit__(self, *_: Any) -> None:
        if sys.stdout is self._put[0]:
            sys.stdout = self._held[0]
        if sys.stderr is self._put[1]:
            sys.stderr = self._held[1]
