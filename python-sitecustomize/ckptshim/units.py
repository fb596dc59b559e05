"""Bytes for people."""

from __future__ import annotations


def size(count: int) -> str:
    """A count of bytes in binary units: ``7.43 GiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} TiB"
