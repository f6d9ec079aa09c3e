"""The worker as a task beside the program: on an event loop that lives, woken by commits, never in the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Final

from holdfast.chores.failure import LOG, told
from holdfast.chores.running import stopped
from holdfast.chores.worker import Worker

STOP_SECONDS: Final = 15.0
"""How long closing waits for a worker that runs on the event loop of another thread."""


@dataclass(frozen=True, slots=True)
class Post:
    """Where the worker runs."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None]
    wake: asyncio.Event

    @property
    def manned(self) -> bool:
        """Whether the worker is there, on a loop that turns."""
        return self.loop.is_running() and not self.task.done()


class Background:
    """Keeps one worker running while there is an event loop to run on.

    The worker begins on the loop that opened the memory. When that loop has ended, the next commit that makes a chore
    due brings it to the loop of that commit.
    """

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._make_worker = make_worker
        self._lock = threading.Lock()
        self._post: Post | None = None
        self._closed = False

    def wake(self) -> None:
        """Have the worker look at once, on its loop or, when that has ended, on the running one."""
        with self._lock:
            post = self._post
            if self._closed:
                return
            if post is None or not post.manned:
                self._post = self._begin()
                if post is not None:
                    _dismiss(post)
                return
        if post.loop is asyncio.get_running_loop():
            post.wake.set()
        else:
            with suppress(RuntimeError):  # that loop has just ended: the next look is somebody else's
                post.loop.call_soon_threadsafe(post.wake.set)

    def _begin(self) -> Post:
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        # A context of its own: what the caller has set for itself is not for chores.
        task = loop.create_task(self._make_worker().serve(wake), name="holdfast-worker", context=Context())
        task.add_done_callback(_report)
        return Post(loop, task, wake)

    async def aclose(self) -> None:
        """Stop the worker: what runs is finished within a few seconds or handed back."""
        with self._lock:
            post, self._post, self._closed = self._post, None, True
        if post is None or not post.manned:
            return
        stop = _stopped(post.task)
        if post.loop is asyncio.get_running_loop():
            await stop
            return
        ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(stop, post.loop))
        with suppress(TimeoutError):  # that loop is kept busy: its leases end by themselves
            await asyncio.wait_for(ended, STOP_SECONDS)


async def _stopped(task: asyncio.Task[None]) -> None:
    await stopped(task, STOP_SECONDS)


def _dismiss(post: Post) -> None:
    """Let a worker whose loop stands still end, should that loop ever turn again."""
    with suppress(RuntimeError):  # closed for good
        post.loop.call_soon_threadsafe(post.task.cancel)


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        LOG.error("the worker has ended: %s", told(error), exc_info=error)
