"""What every handle of one open memory shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.errors import InvalidInput, VersionConflict
from holdfast.model.batch import Batch, Commit, Idempotency, Operation, Requirement
from holdfast.model.entry import Quantised
from holdfast.model.ids import IdMaker, bucket_of
from holdfast.model.origin import UNKNOWN, Origin
from holdfast.model.scope import Place, Scope, checked_key

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.ports.clock import Clock
    from holdfast.ports.embedder import Embedder
    from holdfast.ports.store import Store

ATTEMPTS: Final = 8
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Partition:
    """A place, the scope that reads it, and the bucket of its ids."""

    place: Place
    scope: Scope
    bucket: int


@lru_cache(maxsize=4096)
def _partition(space: str, bank: str, key: str) -> Partition:
    return Partition(Place(bank, key), Scope(space, bank, key), bucket_of(space, bank, key))


def partition(space: str, bank: str, key: str) -> Partition:
    """The partition of a key, checked once."""
    # A key of another type may not be hashable, and must give the typed error.
    return _partition(space, bank, key if isinstance(key, str) else checked_key(key))


class Core:
    """A store with what its writers need: ids, the clock, and the embedder if there is one.

    ``commit`` is the store's own, as an attribute, so that something can be put around it.
    """

    __slots__ = ("_seen_us", "clock", "commit", "embedder", "make_id", "random_bits", "store")

    def __init__(
        self, store: Store, clock: Clock, random_bits: Callable[[int], int], embedder: Embedder | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.random_bits = random_bits
        self.make_id = IdMaker(clock.now_us, random_bits)
        self.embedder = embedder
        self.commit: Callable[[Batch], Awaitable[Commit]] = store.commit
        self._seen_us = 0

    def latest_us(self) -> int:
        """The latest time ever seen: unlike the clock, it never runs backwards."""
        self._seen_us = max(self._seen_us, self.clock.now_us())
        return self._seen_us

    async def write(
        self,
        where: Partition,
        operations: Sequence[Operation],
        *,
        origin: Origin | None = None,
        requires: tuple[Requirement, ...] = (),
        idempotency: Idempotency | None = None,
        undoes: tuple[str, ...] = (),
    ) -> Commit:
        """Commit operations as one change that belongs to a partition."""
        change = self.make_id(where.bucket)
        now_us = self.clock.now_us()
        made = origin or UNKNOWN
        return await self.commit(
            Batch(where.scope.space, change, now_us, tuple(operations), made, requires, idempotency, undoes)
        )

    async def vectors_of(self, texts: Sequence[str]) -> list[tuple[Quantised, ...]]:
        """What is stored beside each text: its vector, when there is an embedder."""
        if self.embedder is None:
            return [()] * len(texts)
        found = await self.embedder.embed(texts)
        return [(quantised(vector),) for vector in found]


async def following(write: Callable[[], Awaitable[Result]]) -> Result:
    """The result of a read-and-write that is done again when others wrote the same record in between."""
    for _ in range(ATTEMPTS):
        try:
            return await write()
        except VersionConflict:
            continue
    return await write()


def quantised(vector: Sequence[float]) -> Quantised:
    """The stored form of a vector."""
    # Deferred: it loads numpy, which a memory without vectors never needs.
    from holdfast.rules.quantise import quantise

    try:
        return quantise(vector)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"not a vector: {error}", code="vector_invalid") from None
