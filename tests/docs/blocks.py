"""Find the Python blocks of a Markdown page, and run them as one program.

Blocks of one page share their names and one event loop. `await` may stand at the top level. A block after
`<!-- no-run: reason -->` is left out.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)(?P<rest>[^`\n]*)$")
NO_RUN = re.compile(r"^\s*<!--\s*no-run:(?P<reason>.*?)-->\s*$")


class PageError(ValueError):
    """A page whose blocks cannot be read."""


@dataclass(frozen=True, slots=True)
class Block:
    source: str
    line: int
    runs: bool


def read_blocks(text: str) -> Iterator[Block]:
    """Every ```python block of a page, with the line its code begins on."""
    lines = text.split("\n")
    runs, at = True, 0
    while at < len(lines):
        if marker := NO_RUN.match(lines[at]):
            if not marker["reason"].strip():
                raise PageError(f"line {at + 1}: no-run gives no reason")
            runs = False
        elif fence := FENCE.match(lines[at]):
            end = _closing_line(lines, at, fence["ticks"])
            if fence["language"] == "python":
                yield Block(textwrap.dedent("\n".join(lines[at + 1 : end])), at + 2, runs)
            runs, at = True, end
        elif lines[at].strip():
            runs = True
        at += 1


def _closing_line(lines: list[str], opening: int, ticks: str) -> int:
    for at in range(opening + 1, len(lines)):
        closing = lines[at].strip()
        if len(closing) >= len(ticks) and set(closing) == {ticks[0]}:
            return at
    raise PageError(f"line {opening + 1}: the block never closes")


def run_page(text: str, name: str) -> dict[str, Any]:
    """Run the blocks in order; return the names that they leave behind."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in read_blocks(text):
            if block.runs:
                _run(block, name, names, runner)
    return names


def _run(block: Block, name: str, names: dict[str, Any], runner: asyncio.Runner) -> None:
    # Blank lines in front keep the line numbers of a traceback those of the page.
    source = "\n" * (block.line - 1) + block.source
    code = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    made = FunctionType(code, names)()
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(made)
