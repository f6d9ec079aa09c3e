"""The stable window: which messages of a conversation go into the prompt, so that the prefix holds still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.model.entry import Entry


@dataclass(frozen=True, slots=True)
class Shown:
    """The entries to show, in order, and how many between the summary and the first of them are not shown."""

    entries: tuple[Entry, ...]
    omitted: int = 0


def stable_window(entries: Sequence[Entry], size: int, chunk: int) -> Shown:
    """The window over the newest visible entries of a key: ``size`` + 1 of them decide it, in order, the new one last.

    It starts at the smallest multiple of ``chunk`` that leaves no more than ``size``: so its start moves once a chunk,
    not once a turn. The newest summary comes first and counts.
    """
    raw = [entry for entry in entries if entry.kind != "summary"]
    summary = next((entry for entry in reversed(entries) if entry.kind == "summary"), None)
    allowed = size if summary is None else size - 1
    shown = raw
    if len(raw) > allowed:
        start = -(-raw[-allowed - 1].seq // chunk) * chunk
        # Gaps in the numbers can put the whole rest of a window behind the start: the new entry always stays.
        shown = [entry for entry in raw if entry.seq > start] or raw[-1:]
    if summary is None:
        return Shown(tuple(_from_user(shown)))
    return Shown((summary, *shown), len(raw) - len(shown))


def _from_user(shown: list[Entry]) -> list[Entry]:
    """Without leading assistant turns, unless only the last entry, or nothing, would be left."""
    for index, entry in enumerate(shown[:-1]):
        if entry.speaker != "assistant":
            return shown[index:]
    return shown
