"""What happened, for the report and for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .units import size

if TYPE_CHECKING:
    from .bridge import Agent

_MOST = 1000


class Events:
    """The report's list of events; the first thousand are kept."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self.list: list[dict[str, object]] = []
        self._said: set[str] = set()

    def add(self, iteration: int, kind: str, detail: str) -> None:
        """kind: proof, plan, over_budget, mismatch or stand_down."""
        if len(self.list) < _MOST:
            self.list.append({"iteration": iteration, "kind": kind,
                              "detail": detail})

    def over_budget(self, iteration: int, peak: int, budget: int,
                    where: str = "") -> None:
        """An iteration's peak exceeded the budget. where: on which of several devices.
        """
        detail = f"peak {peak} bytes{where}, {peak - budget} over the budget"
        self.add(iteration, "over_budget", detail)
        self._agent.log("info", f"iteration {iteration} peaked at {size(peak)}{where}, "
                                f"over the budget of {size(budget)}")

    def say_once(self, topic: str, line: str) -> None:
        """A line for the user, the first one of a topic as a warning."""
        level = "debug" if topic in self._said else "warning"
        self._said.add(topic)
        self._agent.log(level, line)

    def clear(self) -> None:
        """Forget everything (a forked child)."""
        self.list.clear()
        self._said.clear()
