"""A bounded watch over Python objects: which of them did a forward change?

``see`` remembers an object and, breadth first, what can be reached from it;
``changes`` compares. Nothing of the job's own code is run: no comparison, no
iteration, no attribute hook of a class of its own.
"""

from __future__ import annotations

import collections
import time
import types
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch

from . import digest, interrupts, reach, structures
from .foreign import is_foreign
from .reach import ARGUMENT, GLOBAL

_LIMIT = 6000               # objects
_TIME = 0.02                # seconds for one walk
_MISSING = object()

Check = Callable[[Any, Any], bool]          # object, state: is it as it was?


class Change(NamedTuple):
    """An object that is no longer as it was; see ``Watch.record``."""

    origin: str
    path: str
    value: Any
    lasting: bool


class Watch:
    """Remembers objects by where they were first met.

    static: also follow the names in the code of functions met. Needed where
    the forward cannot be traced.
    """

    def __init__(self, static: bool = False) -> None:
        self.static = static
        self._seen: dict[Any, Any] = {}
        self._records: list[tuple[Check, Any, Change]] = []
        self._queue: collections.deque[tuple[Any, str, str]] = collections.deque()
        self.budget = digest.Budget()
        self.modules: dict[int, torch.nn.Module] = {}   # looked after elsewhere
        self.iterator: Optional[str] = None             # met among the arguments
        self.scripts: list[Any] = []                    # TorchScript functions met
        self._arguments: set[int] = set()               # met among arguments only

    # -- remembering ---------------------------------------------------------

    def see(self, value: Any, origin: str, path: str) -> None:
        """Remember value and what is reached from it."""
        self._queue.append((value, origin, path))
        self._walk()

    def met(self, value: Any) -> bool:
        """Whether this very object was remembered."""
        return id(value) in self._seen

    def skip(self, value: Any) -> None:
        """Never remember this object."""
        self._seen.setdefault(id(value), value)

    def names(self, scope: dict[str, Any], code: types.CodeType) -> None:
        """Remember what the global names in a function's code stand for."""
        where = scope.get("__name__", "?")
        for name in code.co_names:
            value = scope.get(name, _MISSING)
            key = (id(scope), name)
            if key in self._seen:
                continue
            self._seen[key] = None
            if type(value) is types.ModuleType:
                self._attributes_named(value, code, f"{name}")
                continue
            path = name if where == "__main__" else f"{where}.{name}"
            self.record(_binding, (scope, name), value, GLOBAL, path)
            if value is not _MISSING:
                self._queue.append((value, GLOBAL, path))
        self._walk()

    def _attributes_named(self, module: types.ModuleType, code: types.CodeType,
                          path: str) -> None:
        if is_foreign(module.__dict__):
            return
        own = module.__dict__
        for name in code.co_names:
            key = (id(own), name)
            if name not in own or key in self._seen:
                continue
            self._seen[key] = None
            value = own[name]
            if type(value) is types.ModuleType:
                self._attributes_named(value, code, f"{path}.{name}")
                continue
            self.record(_binding, (own, name), value, GLOBAL, f"{path}.{name}")
            self._queue.append((value, GLOBAL, f"{path}.{name}"))

    def _walk(self) -> None:
        queue, seen = self._queue, self._seen
        end = time.perf_counter() + _TIME
        while queue and len(seen) < _LIMIT:
            value, origin, path = queue.popleft()
            kind = type(value)
            if (kind in structures.ATOMS and kind is not types.FunctionType
                    and kind is not type):
                continue
            if id(value) in seen:
                if origin == ARGUMENT or id(value) not in self._arguments:
                    continue
                self._arguments.discard(id(value))      # and what is inside as well
            elif origin == ARGUMENT:
                self._arguments.add(id(value))
            seen[id(value)] = value
            try:
                reach.handler(kind)(self, value, origin, path)
            except Exception as error:  # an object that does not want to be seen
                if interrupts.is_the_jobs(error):
                    raise
                continue
            if len(seen) % 64 == 0 and time.perf_counter() > end:
                break
        queue.clear()

    def record(self, check: Check, value: Any, state: Any, origin: str,
               path: str, lasting: bool = False) -> None:
        """Remember a state; check(value, state) tells whether it still holds.

        lasting: no note puts this back, should it change without a look.
        """
        self._records.append((check, state, Change(origin, path, value, lasting)))

    def push(self, value: Any, origin: str, path: str) -> None:
        """Come to value later in the same walk."""
        self._queue.append((value, origin, path))

    def close(self) -> None:
        """Let go of everything."""
        self._seen.clear()
        self._records.clear()
        self._queue.clear()
        self.modules = {}

    # -- comparing -----------------------------------------------------------

    def changes(self) -> Iterator[Change]:
        """What is no longer as it was."""
        for check, state, change in self._records:
            try:
                held = check(change.value, state)
            except Exception as error:
                if interrupts.is_the_jobs(error):
                    raise
                held = False
            if not held:
                yield change


def _binding(place: tuple[dict[str, Any], str], before: Any) -> bool:
    scope, name = place
    return digest.same(before, scope.get(name, _MISSING))
