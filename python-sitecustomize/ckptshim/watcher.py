"""What frames tell about themselves, and what they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch

if TYPE_CHECKING:
    from .blocks import Call
    from .frame import Frame, Handle
    from .probe import Look


class Watcher:
    """All may be overridden."""

    def forward_begins(self, call: "Call") -> None:
        """Just before the job's forward."""

    def look(self, original: Any, module: torch.nn.Module, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> Optional["Look"]:
        """A look, if wanted, at a block that has not run in this form before."""
        return None

    def forward_ends(self, frame: "Frame") -> None:
        """The forward has returned; nothing is dropped yet."""

    def frame_decided(self, frame: "Frame") -> None:
        """The frame was kept, dropped or is held for a proof."""

    def looked(self, frame: "Frame", look: "Look") -> bool:
        """The look at a first forward is over; False: keep this frame."""
        return True

    def failed(self, error: Exception) -> None:
        """Our own code raised; the job goes on as if it had not.

        Raises:
            error: a signal handler of the job's raised it, in our code by chance.
        """
        raise error

    def dropping(self, frame: "Frame", held: list["Handle"]) -> None:
        """The tensors in these handles are about to be dropped."""

    def recompute_begins(self, frame: "Frame") -> None:
        """Backward needs the frame."""

    def recompute_ends(self, frame: "Frame") -> None:
        """All that was needed is there again."""

    def wants_proof(self, frame: "Frame") -> bool:
        """Whether to prove this frame now (False: keep it as it is)."""
        return True

    def proven(self, frame: "Frame", reason: Optional[str], detail: str) -> None:
        """A proof's outcome; reason None: every bit agreed."""

    def mismatch(self, call: "Call", detail: str) -> None:
        """A trusted block's recompute differed; raise to end the job."""

    def digest_stride(self, frame: "Frame") -> Optional[int]:
        """0: digest every byte; n: a line every n bytes; None: no digest."""
        return 0
