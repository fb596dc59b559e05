"""Opening files in the job's process without getting in its way.

A job may have closed its standard streams: the next file that is opened gets
their numbers, and whatever the job or a library of its prints goes into it.
What strangers may write is read no further than a bound, and only if it is a
regular file: a pipe would keep the job waiting.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile

_FIRST = 3          # number that is no standard stream's


def temporary(folder: str, prefix: str) -> tuple[int, str]:
    """A new file of mode 0600 in folder: its descriptor and its path.

    Raises OSError.
    """
    handle, path = tempfile.mkstemp(prefix=prefix, dir=folder)
    try:
        return _above_standard(handle), path
    except OSError:
        os.unlink(path)
        raise


def text(path: str, most: int) -> str:
    """The content of a regular file of at most `most` bytes.

    Bytes that are no UTF-8 become surrogates. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with os.fdopen(_above_standard(os.open(path, flags)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"more than {most >> 20} MiB")
    if b"\0" in content:
        raise OSError("not a text (it has a NUL byte)")
    return content.decode("utf-8", "surrogateescape")


def _above_standard(handle: int) -> int:
    if handle >= _FIRST:
        return handle
    try:
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    finally:
        os.close(handle)
