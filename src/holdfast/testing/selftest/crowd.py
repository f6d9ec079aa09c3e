"""One process of many on one file: threads, each with an event loop of its own, that share a handle until time is up.

Run as ``python -m holdfast.testing.selftest.crowd`` with a ``Part`` as JSON. It says when it is ready, waits for a line
of input, and leaves its ``Report`` beside the file.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from holdfast.errors import HoldfastError
from holdfast.memories.local import LocalHoldfast
from holdfast.model.bank import NewEntry
from holdfast.model.batch import Append, Batch, Enqueue, Finish, Operation
from holdfast.model.chore import Chore, ChoreDraft
from holdfast.model.entry import Draft
from holdfast.model.ids import IdMaker
from holdfast.model.scope import Place
from holdfast.providers.system import SystemClock, SystemRandom
from holdfast.testing.selftest.scene import SPACE, Scene, opened, set_up
from holdfast.testing.selftest.script import WORDS, vector_of

KEYS: Final = 16
CHORE: Final = "selftest"
EFFECTS: Final = "effects"
LEASE_US: Final = 30_000_000
ACTIONS: Final = ("add add add add add many load load load search search value value chore work work").split()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """What one process has to do: act in so many threads for so long, pausing up to ``pause_ms`` between actions."""

    path: str
    number: int
    threads: int
    seconds: float
    seed: int
    pause_ms: float

    @property
    def report(self) -> Path:
        """Where the report is left."""
        return Path(f"{self.path}.part-{self.number}.json")


@dataclass(slots=True)
class Report:
    """What one process has done: the texts and values that were acknowledged, errors, and how long calls took."""

    contents: list[str] = field(default_factory=list[str])
    values: dict[str, int] = field(default_factory=dict[str, int])
    chores: int = 0
    done_chores: list[str] = field(default_factory=list[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    writes_ms: list[float] = field(default_factory=list[float])
    reads_ms: list[float] = field(default_factory=list[float])


class Actor:
    """One thread's part: actions at random, each of them noted."""

    def __init__(self, part: Part, scene: Scene, thread: int, report: Report) -> None:
        self._name = f"p{part.number}t{thread}"
        self._chance = Random(f"crowd/{part.seed}/{self._name}")
        self._part = part
        self._scene = scene
        self._report = report
        self._clock = SystemClock()
        self._make_id = IdMaker(self._clock.now_us, SystemRandom())
        self._count = 0

    async def act_until(self, deadline: float) -> None:
        """Act and pause in turn."""
        actions = {
            "add": self._add,
            "many": self._add_many,
            "load": self._load,
            "search": self._search,
            "value": self._value,
            "chore": self._enqueue,
            "work": self._work,
        }
        while time.monotonic() < deadline:
            self._count += 1
            try:
                await actions[self._chance.choice(ACTIONS)]()
            except HoldfastError as error:
                self._report.errors[f"{error.code}: {error.message}"] += 1
            await asyncio.sleep(self._chance.random() * self._part.pause_ms / 1000)

    async def _add(self) -> None:
        content = self._content(0)
        await self._timed(
            self._report.writes_ms,
            self._scene.bank.add(content, key=self._key(), vector=vector_of(content)),
        )
        self._report.contents.append(content)

    async def _add_many(self) -> None:
        key = self._key()
        contents = [self._content(part) for part in range(self._chance.randrange(2, 6))]
        entries = [NewEntry(content, key, vector=vector_of(content)) for content in contents]
        await self._timed(self._report.writes_ms, self._scene.bank.add_many(entries))
        self._report.contents += contents

    async def _load(self) -> None:
        await self._timed(self._report.reads_ms, self._scene.bank.load(key=self._key(), limit=20))

    async def _search(self) -> None:
        words = " ".join(self._chance.sample(WORDS, 2))
        call = self._scene.bank.search(words, key=self._key(), vector=vector_of(words))
        await self._timed(self._report.reads_ms, call)

    async def _value(self) -> None:
        await self._timed(self._report.writes_ms, self._scene.hf.values.set(self._name, self._count))
        self._report.values[self._name] = self._count

    async def _enqueue(self) -> None:
        place = Place(self._scene.bank.id, self._key())
        draft = ChoreDraft(id=self._make_id(0), kind=CHORE, place=place, due_us=self._clock.now_us())
        await self._commit(Enqueue(draft))
        self._report.chores += 1

    async def _work(self) -> None:
        """Lease a chore, and write what it brings about together with its end."""
        now_us = self._clock.now_us()
        leased: list[Chore] = await self._timed(
            self._report.writes_ms,
            self._scene.hf.store.lease(
                worker=self._name, now_us=now_us, until_us=now_us + LEASE_US, kinds=[CHORE]
            ),
        )
        for chore in leased:
            draft = Draft(id=self._make_id(0), content=chore.id, created_us=now_us)
            effect = Append(Place(self._scene.bank.id, EFFECTS), draft)
            await self._commit(effect, Finish(chore.id, chore.token))
            self._report.done_chores.append(chore.id)

    async def _commit(self, *operations: Operation) -> None:
        batch = Batch(SPACE, self._make_id(0), self._clock.now_us(), operations)
        await self._timed(self._report.writes_ms, self._scene.hf.store.commit(batch))

    async def _timed(self, times: list[float], call: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            return await call
        finally:
            times.append((time.perf_counter() - began) * 1000)

    def _key(self) -> str:
        return f"shared-{self._chance.randrange(KEYS)}"

    def _content(self, part: int) -> str:
        return f"{self._name} {self._count} {part} {' '.join(self._chance.choices(WORDS, k=12))}"


def act(part: Part) -> None:
    """Open, wait for the word, act, and leave the report."""
    hf = asyncio.run(opened(Path(part.path)))
    scene = asyncio.run(_warmed_up(hf, part))
    reports = [Report() for _ in range(part.threads)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    deadline = time.monotonic() + part.seconds
    threads = [
        threading.Thread(target=partial(_run, Actor(part, scene, number, report), deadline))
        for number, report in enumerate(reports)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(_close(hf))
    part.report.write_text(json.dumps([asdict(report) for report in reports]), "utf-8")


async def _warmed_up(hf: LocalHoldfast, part: Part) -> Scene:
    """Load what is loaded with the first write and the first search: that is not what is measured."""
    scene = await set_up(hf)
    await hf.values.set(f"p{part.number}", 0)
    await scene.bank.search("tea", key="shared-0", vector=vector_of("tea"))
    return scene


def _run(actor: Actor, deadline: float) -> None:
    asyncio.run(actor.act_until(deadline))


async def _close(hf: LocalHoldfast) -> None:
    await hf.aclose()


if __name__ == "__main__":
    act(Part(**json.loads(sys.argv[1])))
