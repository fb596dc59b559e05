"""When an optimizer's step ends an iteration."""

from __future__ import annotations

from typing import Optional


class Steps:
    """Learns in which order a job's optimizers step.

    One optimizer: each of its steps ends an iteration. Several, once their
    order has repeated (discriminator, generator, discriminator, ...): the last
    of the order. Until then, and whenever the order breaks: each step.
    """

    def __init__(self) -> None:
        self._history: list[int] = []
        self._order: Optional[list[int]] = None
        self._at = 0

    def ends(self, optimizer: int) -> bool:
        """Whether this step is the last one of an iteration."""
        if self._order is not None:
            if optimizer == self._order[self._at]:
                self._at = (self._at + 1) % len(self._order)
                return self._at == 0
            self._order = None
        if self._history and optimizer == self._history[0]:
            self._order, self._history = self._history, []
            self._at = 1 % len(self._order)
            return self._at == 0
        if optimizer in self._history:
            self._history.clear()
        self._history.append(optimizer)
        return True
