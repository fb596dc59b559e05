"""The agent's functions without the preloaded library: no ledger, real digests."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Sequence


class FakeAgent:
    """Enough of ``bridge.Agent`` for frames."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def digests(self, addresses: Sequence[int], sizes: Sequence[int],
                stride: int = 0) -> list[int]:
        return [_digest(ctypes.string_at(a, n)) for a, n in zip(addresses, sizes)]

    def digest_strided(self, address: int, itemsize: int, sizes: Sequence[int],
                       strides: Sequence[int]) -> int:
        return _digest(_gather(address, itemsize, list(sizes), list(strides)))

    def sizes(self, addresses: Sequence[int]) -> list[int]:
        return [0] * len(addresses)

    def log(self, level: str, line: str) -> None:
        self.lines.append((level, line))

    def __getattr__(self, name: str) -> Any:
        return lambda *args: 0


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _gather(address: int, itemsize: int, sizes: list[int], strides: list[int]) -> bytes:
    if not sizes:
        return ctypes.string_at(address, itemsize)
    return b"".join(_gather(address + i * strides[0] * itemsize, itemsize, sizes[1:],
                            strides[1:]) for i in range(sizes[0]))
