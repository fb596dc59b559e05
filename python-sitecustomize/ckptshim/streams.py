"""Random streams: where they stand, and putting them back there.

States are kept as bytes outside torch's allocator, so that remembering them
never shows in tensor memory. A stream has two functions, ``take() -> state``
and ``put(state)``; states compare with ``==``.
"""

from __future__ import annotations

import ctypes
import operator
import random
import struct
import sys
from typing import Any, Callable, Optional

import torch

Take = Callable[[], Any]
Put = Callable[[Any], None]

_C: Any = torch._C
_random: Any = random
_cuda_in_use: Callable[[], bool] = torch.cuda.is_initialized
_at = ctypes.string_at

# A Mersenne twister in C: 624 words of state and a position, in either order.
_WORDS = 624
_BYTES = 4 * (_WORDS + 1)
_HEADER: int = object.__basicsize__


# -- torch -------------------------------------------------------------------

def take_torch(generator: torch.Generator) -> bytes:
    """The state of a torch generator of any device."""
    state = generator.get_state()
    return _at(state.data_ptr(), state.numel())


def put_torch(generator: torch.Generator, state: bytes) -> None:
    """Set a torch generator, unseen by function modes."""
    with _C.DisableTorchFunction():
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


class TorchStreams:
    """The default generators of the CPU and of every CUDA device in use."""

    def __init__(self) -> None:
        self._last = b""

    def take(self) -> tuple[bytes, ...]:
        """One state a device. Equal consecutive states are one object."""
        state = take_torch(torch.default_generator)
        if state == self._last:
            state = self._last
        else:
            self._last = state
        if not _cuda_in_use():
            return (state,)
        return (state, *map(take_torch, torch.cuda.default_generators))

    @staticmethod
    def put(states: tuple[bytes, ...]) -> None:
        """Set the generators whose state differs."""
        generators = [torch.default_generator]
        if len(states) > 1:
            generators += torch.cuda.default_generators
        for generator, state in zip(generators, states):
            if take_torch(generator) != state:
                put_torch(generator, state)


# -- random ------------------------------------------------------------------

def _read_python(raw: bytes, gauss: Optional[float]) -> tuple[Any, ...]:
    position, *words = struct.unpack(f"={_WORDS + 1}I", raw)
    return (3, (*words, position), gauss)


def _python_is_readable() -> bool:
    """Whether random.Random keeps its twister where CPython always has."""
    if sys.implementation.name != "cpython":
        return False
    sample: Any = random.Random(11)
    if type(sample).__basicsize__ < _HEADER + _BYTES:
        return False
    sample.gauss(0, 1)
    raw = _at(id(sample) + _HEADER, _BYTES)
    return bool(_read_python(raw, sample.gauss_next) == sample.getstate())


class PythonStream:
    """The generator behind the functions of the module ``random``."""

    def __init__(self) -> None:
        self._readable = _python_is_readable()
        self._gauss = operator.attrgetter("gauss_next")
        self._last: Any = None

    def take(self) -> Any:
        """Its state; reading it raw takes a tenth of the time of getstate()."""
        stream: Any = _random._inst
        state: Any
        if self._readable and stream.__class__ is random.Random:
            state = _at(id(stream) + _HEADER, _BYTES), self._gauss(stream)
        else:
            state = stream.getstate()
        if state == self._last:
            return self._last
        self._last = state
        return state

    def put(self, state: Any) -> None:
        """Set it if it differs."""
        if self.take() == state:
            return
        if type(state[0]) is bytes:
            state = _read_python(*state)
        _random._inst.setstate(state)


# -- numpy -------------------------------------------------------------------

def _gauss_offset(kind: Any) -> Optional[int]:
    """Where a RandomState keeps has_gauss (int) and gauss (double), if found."""
    sample = kind(5)
    size = type(sample).__basicsize__
    found: set[int] = set(range(_HEADER, size - 15, 8))
    for has, gauss in ((1, 0.1234567), (0, 0.0), (1, -7.25e300)):
        name, key, position = sample.get_state()[:3]
        sample.set_state((name, key, position, has, gauss))
        raw = _at(id(sample), size)
        found = {i for i in found
                 if struct.unpack_from("=i4xd", raw, i) == (has, gauss)}
    return found.pop() if len(found) == 1 else None


def _read_numpy(numpy: Any, raw: bytes, gauss: bytes) -> tuple[Any, ...]:
    key = numpy.frombuffer(raw, dtype=numpy.uint32, count=_WORDS).copy()
    position = struct.unpack_from("=i", raw, 4 * _WORDS)[0]
    return ("MT19937", key, position, *struct.unpack("=i4xd", gauss))


def _legacy_key(state: tuple[Any, ...]) -> tuple[Any, ...]:
    name, key, *rest = state
    return (name, key.tobytes(), *rest)


class NumpyStream:
    """The global RandomState behind the functions of ``numpy.random``."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._twister: Any = None
        self._address = 0
        self._gauss = 0
        self._last: Any = None

    def _find(self, stream: Any, twister: Any) -> None:
        """Learn where stream's state lies; address 0 if that is not certain."""
        self._stream, self._twister, self._address = stream, twister, 0
        try:
            if type(twister).__name__ != "MT19937":
                return
            address = int(twister.ctypes.state_address)
            offset = _gauss_offset(type(stream))
            if offset is None:
                return
            self._address, self._gauss = address, id(stream) + offset
            known = _read_numpy(sys.modules["numpy"], *self._raw())
            if _legacy_key(known) != _legacy_key(stream.get_state()):
                self._address = 0
        except Exception:
            self._address = 0

    def _raw(self) -> tuple[bytes, bytes]:
        return _at(self._address, _BYTES), _at(self._gauss, 16)

    def take(self) -> Any:
        """Its state, or None in a process that has not loaded numpy.random."""
        mtrand = sys.modules.get("numpy.random.mtrand")
        if mtrand is None:
            return None
        stream = mtrand._rand
        twister = stream._bit_generator
        if stream is not self._stream or twister is not self._twister:
            self._find(stream, twister)
        state: Any = (self._raw() if self._address
                      else _Frozen(stream.get_state(legacy=False)))
        if state == self._last:
            return self._last
        self._last = state
        return state

    def put(self, state: Any) -> None:
        """Set it if it differs."""
        if state is None or self.take() == state:
            return
        if not isinstance(state, _Frozen):
            self._stream.set_state(_read_numpy(sys.modules["numpy"], *state))
        else:
            self._stream.set_state(state.value)


class _Frozen:
    """A state made of dicts, numbers and arrays, comparable by value."""

    __slots__ = ("value", "_key")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _freeze(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key

    __hash__ = None  # type: ignore[assignment]


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _freeze(v)) for k, v in value.items())
    if hasattr(value, "tobytes"):
        return value.tobytes()
    return value


# -- all the global ones -----------------------------------------------------

_torch_streams = TorchStreams()
_python_stream = PythonStream()
_numpy_stream = NumpyStream()


def take() -> tuple[Any, ...]:
    """Where every global stream stands."""
    return _torch_streams.take(), _python_stream.take(), _numpy_stream.take()


def put(states: tuple[Any, ...]) -> None:
    """Put the global streams that differ back to where they stood."""
    _torch_streams.put(states[0])
    _python_stream.put(states[1])
    _numpy_stream.put(states[2])


# -- generators that a job holds itself --------------------------------------

def _put_bit_generator(generator: Any, state: _Frozen) -> None:
    generator.bit_generator.state = state.value


def _put_random_state(generator: Any, state: _Frozen) -> None:
    generator.set_state(state.value)


_Private = tuple[Callable[[Any], Any], Callable[[Any, Any], None]]

_TORCH: _Private = (take_torch, put_torch)
_PYTHON: _Private = (lambda g: g.getstate(), lambda g, s: g.setstate(s))
_NUMPY: _Private = (lambda g: _Frozen(g.bit_generator.state), _put_bit_generator)
_LEGACY: _Private = (lambda g: _Frozen(g.get_state(legacy=False)), _put_random_state)
_BIT: _Private = (lambda g: _Frozen(g.state), lambda g, s: setattr(g, "state", s.value))


def private(kind: type) -> Optional[_Private]:
    """How to take and put the state of a generator of this type, if it is one."""
    if issubclass(kind, torch.Generator):
        return _TORCH
    if issubclass(kind, random.Random):
        return None if issubclass(kind, random.SystemRandom) else _PYTHON
    if not issubclass(kind, object) or "numpy.random" not in sys.modules:
        return None
    numpy_random = sys.modules["numpy.random"]
    for name, functions in (("Generator", _NUMPY), ("RandomState", _LEGACY),
                            ("BitGenerator", _BIT)):
        base = getattr(numpy_random, name, None)
        if isinstance(base, type) and issubclass(kind, base):
            return functions
    return None
