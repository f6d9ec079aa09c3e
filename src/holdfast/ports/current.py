"""The current default: one slot in the context, filled by ``holdfast.use`` or, when it is empty, by ``app``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:  # Protocols are needed by type checkers only
    from holdfast.ports.face import Holdfast

_current: ContextVar[Holdfast | None] = ContextVar("holdfast_current", default=None)
_makers: list[Callable[[], Holdfast]] = []


def default() -> Holdfast:
    """The memory of this context: that of the nearest ``use``, else the process-wide one, opened at its first call."""
    found = _current.get()
    if found is not None:
        return found
    if not _makers:
        raise HoldfastError("no default memory", hint="import holdfast, or call holdfast.use(hf)")
    return _makers[-1]()


@contextmanager
def use(hf: Holdfast) -> Generator[Holdfast, None, None]:
    """Make a memory the default of this context, and of tasks started in it, until the block ends."""
    token = _current.set(hf)
    try:
        yield hf
    finally:
        _current.reset(token)


def fill(maker: Callable[[], Holdfast]) -> None:
    """Say how the process-wide default is made."""
    _makers[:] = [maker]
