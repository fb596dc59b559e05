"""The two C libraries, as Python sees them.

``agent/shim_abi.h`` and ``planner/plan.h`` are the reference for every
function here: units, threads and errors are theirs. Functions that only read a
counter keep the interpreter's lock; those that touch much memory release it.
"""

from __future__ import annotations

import ctypes
import json
from array import array
from ctypes import (
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Sequence

ABI = 1
CPU = 0
_WHY = 512          # bytes for one line
_RANGES = 64        # inside each other; those further out are not looked at
_BRIEF = 1 << 16    # bytes: too few to release the interpreter's lock for


class Segment(ctypes.Structure):
    """``struct ckptagent_segment``."""

    _fields_ = [("mark", c_uint32), ("call", c_int32),
                ("live", c_uint64), ("peak", c_uint64)]


class Storage(ctypes.Structure):
    """``struct ckptagent_storage``."""

    _fields_ = [("bytes", c_uint64), ("freed", c_int32), ("reserved", c_int32)]


class Range(ctypes.Structure):
    """``struct ckptagent_range``."""

    _fields_ = [("id", c_uint64), ("text", ctypes.c_char * 128)]


class RangeBytes(ctypes.Structure):
    """``struct ckptagent_range_bytes``."""

    _fields_ = [("openings", c_uint64), ("tensors", c_uint64), ("outside", c_uint64)]


class AbiError(RuntimeError):
    """A library of another version than this package."""


def _declare(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function


class Agent:
    """The preloaded library: settings, log, ledger, tape and digests."""

    def __init__(self, path: str) -> None:
        held = ctypes.PyDLL(path)
        free = ctypes.CDLL(path)
        if _declare(held, "ckptagent_abi", c_int)() != ABI:
            raise AbiError(f"{path} is of another version")
        self._setting = _declare(held, "ckptagent_setting", c_char_p, c_char_p)
        self._log = _declare(held, "ckptagent_log", None, c_char_p, c_char_p)
        self.live_hooks = _declare(held, "ckptagent_live_hooks", c_int)
        self.live_cuda_hooks = _declare(held, "ckptagent_live_cuda_hooks", c_int)
        self.live_cudart_hooks = _declare(held, "ckptagent_live_cudart_hooks", c_int)
        self.cached = _declare(held, "ckptagent_cached", c_uint64, c_int)
        self.outside = _declare(held, "ckptagent_outside", c_uint64, c_int)
        self.taken = _declare(held, "ckptagent_taken", c_uint64, c_int)
        self.taken_peak = _declare(held, "ckptagent_taken_peak", c_uint64, c_int)
        self.taken_peak_reset = _declare(held, "ckptagent_taken_peak_reset", None,
                                         c_int)
        self.reserved = _declare(held, "ckptagent_reserved", None, c_int, c_uint64)
        self.live = _declare(held, "ckptagent_live", c_uint64, c_int)
        self.peak = _declare(held, "ckptagent_peak", c_uint64, c_int)
        self.peak_reset = _declare(held, "ckptagent_peak_reset", None, c_int)
        self.block = _declare(held, "ckptagent_block", c_uint32, c_uint32)
        self.tape_begin = _declare(held, "ckptagent_tape_begin", None, c_int)
        self._mark = _declare(held, "ckptagent_mark", c_int, c_uint32, c_int32)
        self.tape_end = _declare(held, "ckptagent_tape_end", None)
        self.tape_full = _declare(held, "ckptagent_tape_full", c_int)
        words = ctypes.POINTER(c_uint64)
        self._cupti_begin = _declare(free, "ckptagent_cupti_begin", c_int, c_char_p,
                                     c_size_t)
        self.cupti_enter = _declare(held, "ckptagent_cupti_enter", c_uint64)
        self.cupti_leave = _declare(held, "ckptagent_cupti_leave", None, c_uint64)
        self._cupti_end = _declare(free, "ckptagent_cupti_end", c_int, c_size_t, words,
                                   words, c_char_p, c_size_t)
        self.ranges_live = _declare(held, "ckptagent_ranges_live", c_int)
        self._ranges = _declare(held, "ckptagent_ranges", c_size_t,
                                ctypes.POINTER(Range), c_size_t)
        self.range_number = _declare(held, "ckptagent_range_number", c_uint32,
                                     c_uint64)
        self._range_bytes = _declare(held, "ckptagent_range_bytes", None, c_int,
                                     c_size_t, ctypes.POINTER(RangeBytes))
        self._sizes = _declare(held, "ckptagent_sizes", None, c_size_t, words, words)
        self._watch = _declare(held, "ckptagent_watch", None, c_size_t, words,
                               ctypes.POINTER(c_int32))
        self._segments = _declare(held, "ckptagent_segments", c_size_t,
                                  ctypes.POINTER(Segment), c_size_t)
        self._storages = _declare(held, "ckptagent_storages", c_size_t,
                                  ctypes.POINTER(Storage), c_size_t)
        self._digests, self._brief_digests = (
            _declare(library, "ckptagent_digests", None, c_size_t, c_void_p, c_void_p,
                     c_uint64, c_void_p) for library in (free, held))
        extents = ctypes.POINTER(ctypes.c_int64)
        self._strided = _declare(free, "ckptagent_digest_strided", c_uint64, c_uint64,
                                 c_uint32, c_uint32, extents, extents)

    def setting(self, name: str) -> str:
        """A setting's canonical text; "" for one that is unset."""
        value = self._setting(name.encode())
        return value.decode("utf-8", "surrogateescape") if value else ""

    def log(self, level: str, line: str) -> None:
        """Write one line to the log."""
        text = line.replace("\n", " ").encode("utf-8", "backslashreplace")
        self._log(level.encode(), text)

    def mark(self, letter: str, call: int = -1) -> int:
        """Open a segment of the tape; its index, -1 without a tape in progress."""
        index: int = self._mark(ord(letter), call)
        return index

    def segment_count(self) -> int:
        """How many segments the tape has so far."""
        count: int = self._segments(None, 0)
        return count

    def ranges(self) -> list[tuple[int, str]]:
        """This thread's open ranges, innermost first: ids and texts."""
        out = (Range * _RANGES)()
        count = self._ranges(out, _RANGES)
        return [(r.id, r.text.decode("utf-8", "replace")) for r in out[:count]]

    def range_bytes(self, device: int, n: int) -> list[RangeBytes]:
        """What belongs to the numbers 0 to n - 1 on a device."""
        out = (RangeBytes * n)()
        self._range_bytes(device, n, out)
        return list(out)

    def sizes(self, addresses: Sequence[int]) -> list[int]:
        """Bytes of the allocation at each address, 0 where unknown."""
        n = len(addresses)
        out = (c_uint64 * n)()
        self._sizes(n, (c_uint64 * n)(*addresses), out)
        return list(out)

    def watch(self, addresses: Sequence[int]) -> list[int]:
        """Storage indices on the tape, -1 where there is none."""
        n = len(addresses)
        out = (c_int32 * n)()
        self._watch(n, (c_uint64 * n)(*addresses), out)
        return list(out)

    def segments(self) -> list[Segment]:
        """The tape's segments."""
        n = self._segments(None, 0)
        out = (Segment * n)()
        return list(out)[:min(n, self._segments(out, n))]

    def storages(self) -> list[Storage]:
        """The tape's watched storages."""
        n = self._storages(None, 0)
        out = (Storage * n)()
        return list(out)[:min(n, self._storages(out, n))]

    def cupti_begin(self) -> str:
        """Begin to record; "", or why not."""
        why = ctypes.create_string_buffer(_WHY)
        return _text(why) if self._cupti_begin(why, _WHY) else ""

    def cupti_end(self, regions: Sequence[int]) -> tuple[list[int], str]:
        """The nanoseconds of each region, and "" or why there are none."""
        n = len(regions)
        out = (c_uint64 * n)()
        why = ctypes.create_string_buffer(_WHY)
        failed = self._cupti_end(n, (c_uint64 * n)(*regions), out, why, _WHY)
        return list(out), _text(why) if failed else ""

    def digests(self, addresses: Sequence[int], sizes: Sequence[int],
                stride: int = 0) -> list[int]:
        """A 64-bit digest of each range of memory (a probe with a stride)."""
        n = len(addresses)
        words = array("Q", (*addresses, *sizes, *addresses))
        start = words.buffer_info()[0]
        digests = self._digests if sum(sizes) > _BRIEF else self._brief_digests
        digests(n, start, start + 8 * n, stride, start + 16 * n)
        return words[2 * n:].tolist()

    def digest(self, address: int, size: int, stride: int) -> int:
        """The 64-bit digest of one range of memory (a probe with a stride)."""
        return self.digests([address], [size], stride)[0]

    def digest_strided(self, address: int, itemsize: int, sizes: Sequence[int],
                       strides: Sequence[int]) -> int:
        """The digest of a strided tensor's elements in index order."""
        n = len(sizes)
        extents = ctypes.c_int64 * n
        return int(self._strided(address, itemsize, n, extents(*sizes),
                                 extents(*strides)))


class PlanError(RuntimeError):
    """The planner refused its input; the text says why."""


class Planner:
    """libckptplan: documents in, documents out."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        if _declare(library, "ckptplan_abi", c_int)() != ABI:
            raise AbiError(f"{path} is of another version")
        self._solve = _declare(library, "ckptplan_solve", c_int, c_char_p, c_char_p,
                               ctypes.POINTER(ctypes.c_void_p), c_char_p, c_size_t)
        self._judge = _declare(library, "ckptplan_judge", c_int, c_char_p, c_char_p,
                               c_char_p, ctypes.POINTER(ctypes.c_void_p), c_char_p,
                               c_size_t)
        self._free = _declare(library, "ckptplan_free", None, ctypes.c_void_p)

    def solve(self, profile: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        """The plan for one request.

        Raises:
            PlanError: the profile or the request is refused, or memory is short.
        """
        return self._plan(self._solve, _json(profile), _json(request))

    def judge(self, plan: str, profile: dict[str, Any],
              request: dict[str, Any]) -> dict[str, Any]:
        """What the decisions of a plan document (text) cost.

        Raises:
            PlanError: the plan is refused or does not fit the profile.
        """
        return self._plan(self._judge, plan.encode("utf-8", "surrogateescape"),
                          _json(profile), _json(request))

    def _plan(self, function: Any, *documents: bytes) -> dict[str, Any]:
        text = ctypes.c_void_p()
        why = ctypes.create_string_buffer(_WHY)
        if function(*documents, byref(text), why, len(why)):
            raise PlanError(_text(why))
        try:
            document = json.loads(ctypes.string_at(text))
        finally:
            self._free(text)
        plan: dict[str, Any] = document["plans"][0]
        return plan


def _text(why: "ctypes.Array[ctypes.c_char]") -> str:
    return why.value.decode("utf-8", "replace")


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
