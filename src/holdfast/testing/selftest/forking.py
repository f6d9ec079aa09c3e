"""A process that has everything imported and nothing opened, and forks others that write until they are killed.

Run as ``python -m holdfast.testing.selftest.forking``. It has one thread, so that forking is safe. Each line of its
input is an order: it forks a child for it, which tells its number and each acknowledged step; the next line has it
wait for the end of that child.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, Self, cast

from holdfast.errors import StoreFailed, StoreUnsupported
from holdfast.memories.local import LocalHoldfast
from holdfast.ports.store import Store
from holdfast.recall import search
from holdfast.rules import quantise
from holdfast.stores.sqlite import checking, index_reads, ledger, operations, prepared
from holdfast.testing.selftest.launching import launched
from holdfast.testing.selftest.scene import Player, opened, set_up
from holdfast.testing.selftest.script import lanes_of

LOADED: Final = (search, quantise, index_reads, ledger, operations, prepared, checking)
"""Imported late elsewhere, and here before the first fork, so that a child starts at once."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a child has to do: write on from these steps, one for each lane; without any only open the file and read."""

    path: str
    seed: int
    steps: tuple[int, ...] = ()


class Children(AbstractContextManager["Children"]):
    """The forking process as its starter sees it: one child at a time."""

    def __init__(self, module: str = __name__) -> None:
        if not hasattr(os, "fork"):
            raise StoreUnsupported(
                "the crash test needs a system that can fork",
                hint="run the other self-tests, or use Linux or macOS",
            )
        # The threads of numerical libraries would not survive a fork.
        self._process = launched(module, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._write("")
        self._process.communicate()

    def start(self, order: Order) -> int:
        """Fork a child; its process id."""
        self._write(json.dumps(asdict(order)))
        return int(self.read()[1])

    def read(self) -> list[str]:
        """The next thing that the child told, in words; ``end`` is the last."""
        line = cast("IO[bytes]", self._process.stdout).readline()
        if not line:
            raise StoreFailed(
                "the process that forks the writers has ended",
                hint="see what it said, and start the test again",
            )
        return line.decode().split()

    def reap(self) -> None:
        """Let the forking process wait for the end of the child."""
        self._write("reap")

    def _write(self, line: str) -> None:
        pipe = cast("IO[bytes]", self._process.stdin)
        pipe.write(f"{line}\n".encode())
        pipe.flush()


def serve(through: Callable[[Store], Store] | None = None) -> None:
    """Fork a child for each order, until the input ends."""
    gc.freeze()  # what is imported is not looked through again in every child, which would copy its pages
    while order := sys.stdin.readline().strip():
        child = os.fork()
        if child == 0:
            _be_a_child(_order_of(order), through)
        sys.stdin.readline()
        os.waitpid(child, 0)
        _tell("end")


def _order_of(line: str) -> Order:
    fields = json.loads(line)
    return Order(fields["path"], fields["seed"], tuple(fields["steps"]))


def _be_a_child(order: Order, through: Callable[[Store], Store] | None) -> None:
    status = 1
    try:
        _tell(f"pid {os.getpid()}")
        asyncio.run(_write_on(order, through))
        status = 0
    finally:
        _tell(f"over {status}")
        os._exit(status)


async def _write_on(order: Order, through: Callable[[Store], Store] | None) -> None:
    hf = await opened(Path(order.path), through=through)
    if order.steps:
        await _write_lanes(hf, order)
    else:
        await hf.banks.list()
        _tell("open")
        await asyncio.sleep(60)


async def _write_lanes(hf: LocalHoldfast, order: Order) -> None:
    scene = await set_up(hf)
    players = [Player(scene, lane) for lane in lanes_of(order.seed, len(order.steps))]
    for player in players:
        await player.catch_up()
    _tell("open")
    await asyncio.gather(*(_play(player, step) for player, step in zip(players, order.steps, strict=True)))


async def _play(player: Player, step: int) -> None:
    while True:
        step += 1
        await player.play(step)
        _tell(f"ack {player.lane.number} {step}")


def _tell(what: str) -> None:
    os.write(1, f"{what}\n".encode())


def steps_told(told: Sequence[str], steps: list[int]) -> None:
    """Keep the number of the last acknowledged step of a lane."""
    if told[0] == "ack":
        steps[int(told[1])] = int(told[2])


if __name__ == "__main__":
    serve()
