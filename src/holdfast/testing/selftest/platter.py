"""What is left of files when the power goes: a model of a disk that keeps only what was synced, and chance of the rest.

What was written and not synced may be kept, lost or torn into sectors, write by write and in any order. A file that was
made or deleted is an entry of its folder, which has to be synced as well; such entries are lost from the newest back.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

SECTOR: Final = 512
What: TypeAlias = Literal["make", "write", "truncate", "sync", "delete", "delete safely"]


class Event(NamedTuple):
    """One call that changes the disk; ``offset`` is the new size of a truncated file."""

    what: What
    file: str
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class _Node:
    """A file apart from its name: what is safe, and what is not yet."""

    safe: bytearray = field(default_factory=bytearray)
    waiting: list[Event] = field(default_factory=list[Event])
    new: bool = True


class Platter:
    """The disk after the events that it was given."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._nodes: dict[int, _Node] = {}
        self._names: dict[str, int] = {}
        self._safe_names: dict[str, int] = {}
        self._waiting_names: list[tuple[str, int | None]] = []

    def add(self, event: Event) -> None:
        """Let the next event happen."""
        match event.what:
            case "make":
                number = self._names[event.file] = next(self._numbers)
                self._nodes[number] = _Node()
                self._waiting_names.append((event.file, number))
            case "sync":
                self._sync(event.file)
            case "write" | "truncate":
                self._nodes[self._names[event.file]].waiting.append(event)
            case "delete" | "delete safely":
                del self._names[event.file]
                self._waiting_names.append((event.file, None))
                if event.what == "delete safely":
                    self._sync_folder()

    def _sync(self, file: str) -> None:
        node = self._nodes[self._names[file]]
        for event in node.waiting:
            _apply(node.safe, event)
        node.waiting.clear()
        # The database syncs the folder with the first sync of a journal or log that it has made.
        if node.new and file.endswith(("-wal", "-journal")):
            self._sync_folder()
        node.new = False

    def _sync_folder(self) -> None:
        self._waiting_names.clear()
        self._safe_names = dict(self._names)

    def after_power_cut(self, chance: Random) -> Mapping[str, bytes]:
        """The files that are found when the power is back."""
        names = dict(self._safe_names)
        for name, number in self._waiting_names[: chance.randint(0, len(self._waiting_names))]:
            if number is None:
                names.pop(name, None)
            else:
                names[name] = number
        keeps = chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        return {name: _left(self._nodes[number], keeps, chance) for name, number in names.items()}


def _left(node: _Node, keeps: float, chance: Random) -> bytes:
    content = bytearray(node.safe)
    for event in node.waiting:
        kept = chance.random() < keeps
        if event.what == "write" and len(event.data) > SECTOR and chance.random() < 0.2:
            for start in range(0, len(event.data), SECTOR):
                if chance.random() < 0.5:
                    sector = event.data[start : start + SECTOR]
                    _apply(content, Event("write", event.file, event.offset + start, sector))
        elif kept:
            _apply(content, event)
    return bytes(content)


def _apply(content: bytearray, event: Event) -> None:
    end = event.offset + len(event.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if event.what == "write":
        content[event.offset : end] = event.data
    else:
        del content[event.offset :]
