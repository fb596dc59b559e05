"""Starts the shim in a process that uses torch, or stands down with one line."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Optional

import torch

from . import compilers, device, digest, discover
from .bridge import Agent, Planner
from .controller import Controller
from .events import Events
from .patch import Patches
from .report import Report
from .roots import Roots
from .settings import Settings
from .stack import room

_OLDEST = (2, 4)
_started: Optional["Session"] = None


class Session:
    """Everything of one process, wired together."""

    def __init__(self, agent: Agent, planner: Planner, settings: Settings) -> None:
        self.events = Events(agent)
        self.controller = Controller(agent, planner, settings, self.events)
        self.roots = Roots(self.controller, Patches(torch.compiler.is_compiling))
        self.report = Report(self.controller)
        self.controller.learned = self.report.after_iteration
        if settings.rehearse:
            from .rehearsal import Rehearsal

            self.controller.learned = Rehearsal(
                self.controller, settings.rehearse, settings.out,
                self.report.write).after_iteration

    def start(self) -> None:
        """Begin to watch; write at exit; start afresh in forked children."""
        compilers.hide()
        digest.of_memory = self.controller.agent.digest
        self.roots.install()
        atexit.register(self.report.at_exit)
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        room.after_fork()
        self.controller.after_fork()
        self.roots.after_fork()
        self.report.after_fork()


def start(library: str) -> None:
    """Start once. library is the path of the loaded libckptagent.so."""
    global _started
    if _started is not None:
        return
    agent = Agent(library)
    why = _unfit(agent)
    if why:
        agent.log("warning", f"standing down: {why}")
        return
    settings = Settings(agent)
    if settings.rehearse and not device.is_phantom():
        agent.log("error", "CKPT_REHEARSE is for the phantom device, which is not "
                           "loaded (see ckptagent rehearse)")
        return
    if settings.budget in ("unset", "") and not settings.out and not settings.plan:
        return
    try:
        discover.check(settings.blocks)
    except ValueError as error:
        agent.log("error", f"{error}; the job runs without the agent")
        return
    planner = Planner(os.path.join(os.path.dirname(library), "libckptplan.so"))
    _started = Session(agent, planner, settings)
    _started.start()


def _unfit(agent: Agent) -> str:
    """Why this process cannot be served, or ""."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < _OLDEST:
        return f"torch {torch.__version__} is older than 2.4"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without its global lock"
    if not agent.live_hooks():
        return "torch's CPU allocator does not report its allocations"
    return ""
