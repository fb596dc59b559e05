"""The job's settings, as the agent has read and checked them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bridge import Agent

_MIN_SPARE = 0.8    # of the device's memory: what `min` may use before it spills


class Settings:
    """Attributes are named as the variables of CONTRACT.md.

    Attributes:
        limit: bytes that an iteration's peak may reach; for ``min``, where it
            is not known before the plan, most of the device's memory.
        minimum: the budget is ``min``.
        budgeted: the budget is a number of bytes or ``min``.
        measure_only: no budget, or ``max``, and no plan file: nothing is dropped.
        rehearse: iterations under the plan that a rehearsal runs; 0: it is none.
        must_plan: a plan is made even if the first iteration fits.
    """

    def __init__(self, agent: "Agent") -> None:
        self.budget = agent.setting("budget")
        self.device_memory = int(agent.setting("device_memory") or 0)
        self.minimum = self.budget == "min"
        self.budgeted = self.budget not in ("unset", "max", "")
        if self.budget.isdigit():
            self.limit = int(self.budget)
        else:
            self.limit = int(self.device_memory * _MIN_SPARE) or 1 << 62
        self._share = int(agent.setting("budget_share") or 0)
        self.blocks = agent.setting("blocks") or "auto"
        self.planner = agent.setting("planner") or "optimal"
        self.plan = agent.setting("plan")
        self.measure_only = not self.budgeted and not self.plan
        self.must_plan = self.minimum or bool(self.plan)
        self.on_infeasible = agent.setting("on_infeasible") or "best_effort"
        self.proof = agent.setting("proof") or "always"
        self.on_mismatch = agent.setting("on_mismatch") or "raise"
        self.spill = agent.setting("spill") or "/var/tmp"
        self.out = agent.setting("out")
        self.timing = agent.setting("timing") or "events"
        self.rehearse = int(agent.setting("rehearse") or 0)

    def on_device(self, memory: int) -> None:
        """The job trains on a device with so many bytes of memory of its own."""
        if self._share:
            self.limit = memory * self._share // 1_000_000
        elif not self.budget.isdigit():
            self.limit = int(memory * _MIN_SPARE)
