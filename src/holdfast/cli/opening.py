"""Which memory a command works on, and how it opens it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, TypeVar

import typer

from holdfast.app import file_of
from holdfast.app import open as open_memory
from holdfast.cli.console import say
from holdfast.errors import StoreFailed
from holdfast.memories.local import LocalHoldfast

T = TypeVar("T")
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The memory: a path or URL. Without it, $HOLDFAST_URL or .holdfast/holdfast.db.",
        show_default=False,
    ),
]
File: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE]",
        help="The memory: a path or URL. Without it, $HOLDFAST_URL or .holdfast/holdfast.db.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def with_memory(url: str | None, work: Callable[[LocalHoldfast], Awaitable[T]]) -> T:
    """Open a memory that is there, without background work, do something with it, and close it."""

    async def run() -> T:
        async with open_memory(there(url), worker="manual") as hf:
            return await work(hf)

    return asyncio.run(run())


def there(url: str | None) -> str | None:
    """The URL of a memory that exists: no command but those that write a new file makes one by a slip of the pen."""
    file = file_of(url)
    if file is not None and not file.is_file():
        raise StoreFailed(f"no such file: {file}", hint="give the path of a memory, or set HOLDFAST_URL")
    return url


def say_json(value: object) -> None:
    """A result for other programs."""
    say(json.dumps(value, ensure_ascii=False, indent=2))


def size(count: int) -> str:
    """A number of bytes, to be read by people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
