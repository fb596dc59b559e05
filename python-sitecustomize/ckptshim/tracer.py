"""What one forward does that leaves no trace in objects: output, collectives.

While a look is in force, ``sys.setprofile`` tells of every function that this
thread enters: of the job's own functions, so that what their code names can be
remembered before it runs; of functions that write, start or communicate.
"""

from __future__ import annotations

import _io
import sys
import threading
import types
from typing import Any, Callable, Optional

from . import interrupts
from .foreign import is_foreign, is_foreign_file, is_own_file

_POSIX = frozenset(
    "write writev pwrite pwritev sendfile putenv unsetenv mkdir remove unlink rename "
    "replace rmdir system fork forkpty posix_spawn posix_spawnp kill killpg truncate "
    "ftruncate copy_file_range symlink link chmod chown chdir fchdir mkfifo utime "
    "_exit abort execv execve".split())
_OUTPUT = frozenset(("write", "writelines", "truncate"))
# Methods and functions of C's that write to a file by themselves, by their home.
_DUMPS = {("_csv", "writerow"), ("_csv", "writerows"), ("_pickle", "dump"),
          ("marshal", "dump"), ("numpy", "tofile"), ("array", "tofile")}
_DUMP_NAMES = frozenset(name for _, name in _DUMPS)
_COLLECTIVES = frozenset(
    "all_reduce all_reduce_coalesced all_gather all_gather_coalesced "
    "all_gather_into_tensor all_gather_object broadcast broadcast_object_list "
    "reduce reduce_scatter reduce_scatter_tensor gather gather_object scatter "
    "scatter_object_list all_to_all all_to_all_single barrier monitored_barrier send "
    "recv isend irecv batch_isend_irecv send_object_list recv_object_list "
    "all_reduce_inplace all_gather_tensor all_gather_tensor_autograd "
    "reduce_scatter_tensor_autograd all_to_all_single_autograd permute_tensor".split())
_METHODS = frozenset(
    "allreduce allreduce_coalesced allgather allgather_coalesced _allgather_base "
    "allgather_into_tensor_coalesced _reduce_scatter_base alltoall alltoall_base "
    "recv_anysource reduce_scatter_tensor_coalesced".split())

# Python functions that emit something, by the end of their file and their name.
_EMITTERS = {
    ("logging/__init__.py", "callHandlers"): "a log record",
    ("warnings.py", "_showwarnmsg"): "a warning",
    ("_py_warnings.py", "_showwarnmsg"): "a warning",
    ("queue.py", "put"): "a queue", ("queue.py", "get"): "a queue",
    ("ipykernel/iostream.py", "write"): "printing",
}
_EMITTER_NAMES = frozenset(name for _, name in _EMITTERS)


def _builtin_effect(function: Any) -> Optional[str]:
    """What calling a builtin does to the world outside, or None."""
    name: str = function.__name__
    owner = getattr(function, "__self__", None)
    home = owner.__name__ if type(owner) is types.ModuleType else type(owner).__module__
    if (home, name) in _DUMPS:
        return "writing"
    if home in ("posix", "nt"):
        return f"os.{name}" if name in _POSIX else None
    if home in ("_socket", "socket", "_queue", "sqlite3", "_posixsubprocess", "mmap"):
        return f"{home.strip('_')}.{name}"
    if (home, name) in _BUILTINS:
        return name
    return None


_BUILTINS = {("builtins", "print"), ("builtins", "input"), ("atexit", "register"),
             ("_thread", "start_new_thread"), ("_thread", "start_joinable_thread"),
             ("_thread", "start_new"), ("_signal", "signal"), ("syslog", "syslog")}
_HOMES = {"posix", "nt", "_socket", "socket", "_queue", "sqlite3", "mmap",
          "_posixsubprocess", "builtins", "atexit", "_thread", "_signal", "syslog"}


# What is shown once, as a rule, and by a recompute not again (``mute``).
_SHOWN = {"print", "printing", "a warning", "a log record"}


def _writes(owner: Any) -> bool:
    """Whether an object that is written to is a file, or shown to the user."""
    if not issubclass(type(owner), _io._IOBase):
        return False
    return (not isinstance(owner, (_io.StringIO, _io.BytesIO))
            or owner is sys.stdout or owner is sys.stderr)


class _Silence(threading.local):
    depth = 0


_silence = _Silence()


class unwatched:
    """``with unwatched():`` what the shim itself does is nobody's effect."""

    def __enter__(self) -> None:
        _silence.depth += 1

    def __exit__(self, *_: Any) -> None:
        _silence.depth -= 1


Enter = Callable[[dict[str, Any], types.CodeType], None]


class Tracer:
    """Watches this thread between ``start`` and ``stop``. They may be nested.

    on_code: called with the globals and the code of each function of the job,
        once, just before its first run.
    """

    def __init__(self, on_code: Enter) -> None:
        self.effect: Optional[str] = None
        self.collective: Optional[str] = None
        self._on_code = on_code
        self._codes: dict[int, types.CodeType] = {}
        self._outer: Any = None

    @property
    def lasting(self) -> bool:
        """Whether the effect may come again at any time, and is had twice then."""
        return self.effect is not None and self.effect not in _SHOWN

    @staticmethod
    def possible() -> bool:
        """Whether no profiler of the job's own is in force."""
        current = sys.getprofile()
        return current is None or isinstance(getattr(current, "__self__", None), Tracer)

    def start(self) -> None:
        """Begin to watch; a watch already in force goes on as well."""
        self._outer = getattr(sys.getprofile(), "__self__", None)
        sys.setprofile(self.event)

    def stop(self) -> None:
        """End it, unless the job has set a profiler meanwhile."""
        if getattr(sys.getprofile(), "__self__", None) is self:
            sys.setprofile(None if self._outer is None else self._outer.event)

    def event(self, frame: types.FrameType, event: str, arg: Any) -> None:
        """The profile function. What it raised would be raised in the job's code."""
        try:
            self._event(frame, event, arg)
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise
            self.effect = self.effect or f"a call that cannot be watched ({error!r})"
        if self._outer is not None:
            self._outer.event(frame, event, arg)

    def _event(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in self._codes:
                self._codes[id(code)] = code
                self._first_call(frame, code)
            elif code.co_name in _EMITTER_NAMES or code.co_name in _COLLECTIVES:
                self._first_call(frame, code)
        elif event == "c_call":
            owner = getattr(arg, "__self__", None)
            if owner is None or arg.__name__ in _METHODS:
                self._method(arg)
            else:
                home = (owner.__name__ if type(owner) is types.ModuleType
                        else type(owner).__module__)
                if (home in _HOMES or arg.__name__ in _OUTPUT
                        or arg.__name__ in _DUMP_NAMES):
                    self._effect(frame, arg, owner)

    def _effect(self, frame: types.FrameType, function: Any, owner: Any) -> None:
        if self.lasting or _silence.depth or is_own_file(frame.f_code.co_filename):
            return
        if function.__name__ in _OUTPUT and _writes(owner):
            shown = owner is sys.stdout or owner is sys.stderr
            self.effect = "printing" if shown else "writing"
        else:
            self.effect = _builtin_effect(function) or self.effect

    def _method(self, function: Any) -> None:
        name = function.__name__
        if name in _METHODS and "torch._C._distributed_c10d" in sys.modules:
            self.collective = self.collective or name

    def _first_call(self, frame: types.FrameType, code: types.CodeType) -> None:
        if _silence.depth:
            del self._codes[id(code)]
            return
        file, name = code.co_filename, code.co_name
        if name in _COLLECTIVES and "torch/distributed/" in file:
            self.collective = self.collective or name
        elif name in _EMITTER_NAMES and not self.lasting:
            self.effect = next((what for (end, known), what in _EMITTERS.items()
                                if known == name and file.endswith(end)), self.effect)
        if not is_foreign_file(file) and not is_foreign(frame.f_globals):
            self._on_code(frame.f_globals, code)
