"""Readers: a few threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, cast

import apsw

from holdfast.errors import StoreClosed
from holdfast.stores.sqlite.faults import read_error
from holdfast.stores.sqlite.files import put_away
from holdfast.stores.sqlite.reading import Reading

THREADS: Final = 2
T = TypeVar("T")


@dataclass(slots=True)
class Question:
    """One read that waits for a reader."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[object]
    ask: Callable[[Reading], object]


class Readers:
    """Runs reads off the event loop; each sees the newest commit."""

    def __init__(self, path: Path, make_reading: Callable[[], Reading]) -> None:
        self._path = path
        self._make_reading = make_reading
        self._queue: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    async def read(self, ask: Callable[[Reading], T]) -> T:
        """Run a read on a reader's connection."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        with self._guard:
            if self._closed:
                raise StoreClosed(f"{self._path} was closed", hint="open it again")
            if self._idle <= 0 and len(self._threads) < THREADS:
                self._start()
            self._idle -= 1
            self._queue.put(Question(loop, future, ask))
        return cast("T", await future)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"holdfast-reader-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        self._idle += 1
        thread.start()

    def close(self) -> None:
        """Answer what was asked, then stop."""
        with self._guard:
            first, self._closed = not self._closed, True
            if first:
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        reading: Reading | None = None
        while True:
            question = self._queue.get()
            if question is None:
                break
            result: object = None
            error: Exception | None = None
            try:
                reading = reading or self._make_reading()
                result = question.ask(reading)
            except Exception as fault:  # noqa: BLE001 - the boundary of this thread: a fault reaches its caller as it is
                error = read_error(self._path, fault) or fault
                if isinstance(fault, apsw.Error):  # what the connection remembers may be wrong as well
                    put_away(reading.connection if reading is not None else None)
                    reading = None
            with self._guard:
                self._idle += 1
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                question.loop.call_soon_threadsafe(_answer, question.future, result, error)
        put_away(reading.connection if reading is not None else None)


def _answer(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
