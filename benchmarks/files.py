"""Files to measure on: made through the face, copied for each round, so that all rounds start alike."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import os
import shutil
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import holdfast
from benchmarks.figures import WORK
from holdfast.memories.duties import WorkerMode

BANK = "measured"
BATCH = 1_000
T = TypeVar("T")
Use = Callable[[holdfast.LocalHoldfast, holdfast.Bank], Coroutine[Any, Any, T]]


@cache
def scratch() -> Path:
    """A folder of this process alone, on the disk that is measured; it goes with the process."""
    folder = WORK / f"run-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def machine_alone() -> Generator[None]:
    """Wait until no other run of these benchmarks measures."""
    WORK.mkdir(exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove(file: Path) -> None:
    """Remove a file with what stands beside it."""
    for suffix in ("", "-wal", "-shm", ".lock"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def make(file: Path, entries: Sequence[holdfast.NewEntry]) -> None:
    """A new file with one general bank that takes every text (``dedupe="off"``), holding these entries."""
    remove(file)

    async def fill() -> None:
        async with holdfast.open(file, worker="manual") as hf:
            bank = await hf.banks.create(BANK, kind="general", dedupe="off")
            for start in range(0, len(entries), BATCH):
                await bank.add_many(entries[start : start + BATCH])

    asyncio.run(fill())


def copied(file: Path, name: str) -> Path:
    """A copy that has reached the disk, so that nothing of it is written during a measurement."""
    target = scratch() / name
    remove(target)
    shutil.copyfile(file, target)
    settle(target)
    return target


def settle(file: Path) -> None:
    """Wait until a file has reached the disk."""
    handle = os.open(file, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def using(file: Path, use: Use[T], worker: WorkerMode = "background") -> T:
    """Run something with the bank of a file, in an event loop of its own."""

    async def run() -> T:
        async with holdfast.open(file, worker=worker) as hf:
            return await use(hf, await hf.banks.get(BANK))

    return asyncio.run(run())
