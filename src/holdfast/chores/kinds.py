"""The kinds of chores that a worker knows: who runs them, and who sees when they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from holdfast.errors import AlreadyExists
from holdfast.model.batch import Operation
from holdfast.model.chore import Chore, ChoreDraft

RUN_SECONDS: Final = 900.0
"""How long one run of a chore may take, unless its kind says otherwise."""


class Handler(Protocol):
    """Runs the chores of one kind."""

    async def __call__(self, chore: Chore, /) -> Sequence[Operation]:
        """Do the work and return the result, which is committed in one batch with the end of the chore.

        A handler may be run more than once for one chore: after an error, or when its worker was killed. What it
        returns is written once; what it does elsewhere must bear repetition. It is cancelled when its lease is lost,
        when it takes too long, and when the memory is closed. It must not block the event loop.
        """
        ...


@dataclass(frozen=True, slots=True)
class Due:
    """A chore that a look at the store found to be due. Its draft needs a dedupe key."""

    space: str
    draft: ChoreDraft


class Sweep(Protocol):
    """Looks at the state of the store, and tells what is due by it.

    So work comes to be done even when nobody made it due, or when that was lost. A chore whose dedupe key is alive
    already is not made again.
    """

    async def __call__(self) -> Sequence[Due]:
        """The chores that are due."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """How chores of one kind are run, and how many seconds a run may take."""

    handler: Handler
    limit: float


@dataclass(frozen=True, slots=True)
class Watch:
    """A sweep, the kind of the chore that runs it, and how many seconds lie between two runs."""

    kind: str
    sweep: Sweep
    seconds: float
    limit: float = RUN_SECONDS


Work: TypeAlias = Run | Watch


class Kinds:
    """What a worker can do. Chores of other kinds are left alone."""

    __slots__ = ("_work",)

    def __init__(self) -> None:
        self._work: dict[str, Work] = {}

    def add(self, kind: str, handler: Handler, *, seconds: float = RUN_SECONDS) -> None:
        """Let a handler run the chores of a kind, each for so many seconds at most."""
        self._put(kind, Run(handler, seconds))

    def watch(self, kind: str, sweep: Sweep, *, seconds: float) -> None:
        """Let a sweep look at the store again and again; its own runs are chores of this kind."""
        self._put(kind, Watch(kind, sweep, seconds))

    def _put(self, kind: str, work: Work) -> None:
        if kind in self._work:
            raise AlreadyExists(f"chores of kind {kind!r} have a handler already")
        self._work[kind] = work

    def names(self, *, sweeps: bool) -> tuple[str, ...]:
        """The kinds that can be run, with those of sweeps or without."""
        return tuple(kind for kind, work in self._work.items() if sweeps or isinstance(work, Run))

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The sweeps."""
        return tuple(work for work in self._work.values() if isinstance(work, Watch))

    def work(self, kind: str) -> Work:
        """How chores of a kind are run."""
        return self._work[kind]
