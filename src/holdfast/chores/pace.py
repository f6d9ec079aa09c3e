"""How a worker paces itself, and what it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast.chores.kinds import Kinds

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.ports.clock import Clock
    from holdfast.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds, and how much runs side by side.

    A lease lasts ``lease`` and is renewed every ``beat``: the chores of a process that was killed are taken over by
    another when the lease ends. ``look`` is how long a worker that has nothing to do waits before it asks the store
    again. ``stop`` bounds how long closing waits for what runs; what is not done then is handed back. Sweeps begin
    after ``first_sweep``; every ``heal`` it is seen that none of their chores is lost.
    """

    lease: float = 60.0
    beat: float = 20.0
    look: float = 1.0
    stop: float = 5.0
    first_sweep: float = 5.0
    heal: float = 3600.0
    parallel: int = 32

    @property
    def lease_us(self) -> int:
        """The length of a lease in microseconds."""
        return int(self.lease * 1_000_000)


USUAL: Final = Pace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a worker works with. ``jitter`` gives numbers from 0.5 to 1."""

    store: Store
    clock: Clock
    make_id: Callable[[int], str]
    jitter: Callable[[], float]
    kinds: Kinds = field(default_factory=Kinds)
    pace: Pace = USUAL
