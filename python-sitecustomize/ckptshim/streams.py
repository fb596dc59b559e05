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
_HAS_CUDA: bool = hasattr(torch._C, "_CudaDeviceProperties")
_cuda_in_use: Callable[[], bool] = torch.cuda.is_initialized
_at = ctypes.string_at

# A Mersenne twister in C: 624 words of state and a position, in either order.
_WORDS = 624
_BYTES = 4 * (_WORDS + 1)
_HEADER: int = object.__basicsize__

# A draw moves a twister's position, or makes all words anew: bytes of some words
# beside the position tell two states of one stream apart.
_MARK = 128


Windows = list[Any]
_raw = operator.attrgetter("raw")


def _window(address: int, size: int) -> Any:
    """Memory whose bytes now are ``.raw``."""
    return (ctypes.c_char * size).from_address(address)


# -- torch -------------------------------------------------------------------

def take_torch(generator: torch.Generator) -> bytes:
    """The state of a torch generator of any device."""
    state = generator.get_state()
    return _at(state.data_ptr(), state.numel())


def put_torch(generator: torch.Generator, state: bytes) -> None:
    """Set a torch generator, unseen by function modes."""
    with _C.DisableTorchFunction():
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


_TWISTER, _SPARE = 20 + 4 * _WORDS, 28
_SEED = 0x1C0FFEE5EEDF00D5

# Places in what get_state() returns: left, next, the second word, the spare
# double, whether there is one, the same of the spare float.
_FIELDS = (8, 16, 32, 5024, 5040, 5048, 5052)


def _twister_offset() -> Optional[int]:
    """Where a CPU generator keeps its twister; None if that is not certain."""
    try:
        sample: Any = torch.Generator()
        sample.manual_seed(_SEED)
        offset = _at(sample._cdata, 256).find(struct.pack("=Q", _SEED))
        torch.rand(3, generator=sample)
        return offset if offset > 0 and _tells_apart(sample, offset) else None
    except Exception:
        return None


def _torch_windows(generator: Any, offset: int) -> Windows:
    """On the head of the twister with its first words, and on the spare normals."""
    start = generator._cdata + offset
    return [_window(start, _MARK), _window(start + _TWISTER, _SPARE)]


def _tells_apart(sample: torch.Generator, offset: int) -> bool:
    """Whether a change of any one field shows in the windows."""
    windows = _torch_windows(sample, offset)
    state = bytearray(take_torch(sample))
    state[5040] = state[5052] = 1
    for field in _FIELDS:
        put_torch(sample, bytes(state))
        before = [window.raw for window in windows]
        state[field] ^= 1
        put_torch(sample, bytes(state))
        same = before == [window.raw for window in windows]
        if same or take_torch(sample) != bytes(state):
            return False
        state[field] ^= 1
    return True


class TorchStreams:
    """The default generators of the CPU and of every CUDA device in use."""

    def __init__(self) -> None:
        self._offset = _twister_offset()
        self._last = b""

    def windows(self) -> Optional[Windows]:
        """Memory that changes whenever the CPU's stream moves, if it is known."""
        if self._offset is None:
            return None
        return _torch_windows(torch.default_generator, self._offset)

    def take(self) -> tuple[bytes, ...]:
        """One state a device. Equal consecutive states are one object."""
        state = take_torch(torch.default_generator)
        if state != self._last:
            self._last = state
        if not _cuda_in_use():
            return (self._last,)
        return (self._last, *map(take_torch, torch.cuda.default_generators))

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
        self._last: Any = None

    def windows(self) -> Optional[Windows]:
        """Memory that changes whenever it moves, but for its ``gauss_next``."""
        stream: Any = _random._inst
        if not self._readable or stream.__class__ is not random.Random:
            return None
        return [_window(id(stream) + _HEADER, _MARK)]

    def take(self) -> Any:
        """Its state; reading it raw takes a tenth of the time of getstate()."""
        stream: Any = _random._inst
        if not self._readable or stream.__class__ is not random.Random:
            return stream.getstate()
        held: Any = stream              # its class alone has no gauss_next
        state = _at(id(stream) + _HEADER, _BYTES), held.gauss_next
        if state != self._last:
            self._last = state
        return self._last

    def put(self, state: Any) -> None:
        """Set it."""
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

    def _look(self) -> bool:
        """Whether there is a stream in this process, and it is known."""
        mtrand = sys.modules.get("numpy.random.mtrand")
        if mtrand is None:
            return False
        stream, twister = mtrand._rand, mtrand._rand._bit_generator
        if stream is not self._stream or twister is not self._twister:
            self._find(stream, twister)
        return True

    def windows(self) -> Optional[Windows]:
        """Memory that changes whenever it moves, if that is known."""
        if not self._look():
            return []
        if not self._address:
            return None
        return [_window(self._address + _BYTES - _MARK, _MARK),
                _window(self._gauss, 16)]

    def take(self) -> Any:
        """Its state, or None in a process that has not loaded numpy.random."""
        if not self._look():
            return None
        if not self._address:
            return _Frozen(self._stream.get_state(legacy=False))
        state = self._raw()
        if state != self._last:
            self._last = state
        return self._last

    def put(self, state: Any) -> None:
        """Set it."""
        if state is None:
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

_STREAMS: tuple[Any, ...] = (TorchStreams(), PythonStream(), NumpyStream())


def _sources() -> tuple[Any, ...]:
    """The generators in force."""
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is None:
        return torch.default_generator, _random._inst
    stream = mtrand._rand
    return torch.default_generator, _random._inst, stream, stream._bit_generator


class _Seen:
    """The global streams as they were seen last, and what shows that they moved."""

    __slots__ = ("sources", "windows", "marks", "gauss", "states")

    def __init__(self) -> None:
        self.sources = _sources()
        windows = [stream.windows() for stream in _STREAMS]
        # None matches nothing: without windows every look is a full one.
        self.windows: Windows = [w for some in windows for w in some or ()]
        self.marks = None if None in windows or _cuda_in_use() else [
            *map(_raw, self.windows)]
        self.gauss = getattr(_random._inst, "gauss_next", None)
        self.states = tuple([stream.take() for stream in _STREAMS])


_seen = _Seen()


def take() -> tuple[Any, ...]:
    """Where every global stream stands."""
    global _seen
    seen, now = _seen, _sources()
    if not (now == seen.sources and [*map(_raw, seen.windows)] == seen.marks
            and now[1].gauss_next == seen.gauss
            and not (_HAS_CUDA and _cuda_in_use())):
        _seen = seen = _Seen()
    return seen.states


def put(states: tuple[Any, ...], now: tuple[Any, ...]) -> None:
    """Put the streams that do not stand there now back to where they stood."""
    if states != now:
        for stream, state, present in zip(_STREAMS, states, now):
            if present != state:
                stream.put(state)


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
