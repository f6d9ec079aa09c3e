"""What the command line says, and where: results on stdout, progress and errors on stderr.

Both keep to plain text in a pipe, and without colours where NO_COLOR is set.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from holdfast.errors import HoldfastError

NEXT_STEP: Final = "look at holdfast --help"


def say(line: str, *, good: bool | None = None) -> None:
    """One line of a result, green or red where it is a judgement."""
    style = "" if good is None else "green" if good else "red"
    Console(soft_wrap=True, highlight=False).print(Text(line, style=style))


def complain(error: HoldfastError) -> None:
    """An error: its cause in one line, and the next step in another."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(f"error: {' '.join(error.message.split())}", style="red"))
    console.print(Text(f"next step: {' '.join((error.hint or NEXT_STEP).split())}"))


@contextmanager
def progress(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar on stderr while something runs; nothing where nobody looks."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell
