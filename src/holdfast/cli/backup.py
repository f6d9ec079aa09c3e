"""``holdfast backup``: copies of a memory, made now or by a schedule."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

import typer

from holdfast.cli.console import say
from holdfast.cli.opening import Json, Url, say_json, size, with_memory
from holdfast.model.backup import Backup

app = typer.Typer(
    help="Copy a memory while it is in use, now or by a schedule.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(\d+)([mhdw])")


@app.command(epilog="Example: holdfast backup make copy.db --url memory.db")
def make(
    *,
    target: Annotated[
        str | None,
        typer.Argument(
            help="A new file, or a folder. Without it, the folder of the memory.", show_default=False
        ),
    ] = None,
    url: Url = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the copy with its hashes.")] = False,
) -> None:
    """Copy a memory now, while others go on writing."""
    made = with_memory(url, lambda hf: hf.backups.make(target, verify=verify))
    say(f"{made.path}: {size(made.bytes)}, holds everything until {_time(made)}")


@app.command(epilog="Example: holdfast backup schedule backups --every 1d --keep 7 --url memory.db")
def schedule(
    folder: Annotated[str, typer.Argument(help="Where the copies are made.")],
    url: Url = None,
    every: Annotated[str, typer.Option(help="How often: 30m, 6h, 1d or 2w.")] = "1d",
    keep: Annotated[int, typer.Option(min=1, help="How many of these copies stay.")] = 7,
) -> None:
    """Have copies made from now on by the programs that have the memory open."""
    span = _span(every)
    made = with_memory(url, lambda hf: hf.backups.schedule(folder, every=span, keep=keep))
    say(f"a backup into {made.folder} every {every}, the newest {made.keep} stay")


@app.command(epilog="Example: holdfast backup unschedule --url memory.db")
def unschedule(url: Url = None) -> None:
    """Make no more copies by a schedule; those that there are stay."""
    with_memory(url, lambda hf: hf.backups.unschedule())
    say("no schedule")


@app.command("list", epilog="Example: holdfast backup list --url memory.db")
def list_backups(*, url: Url = None, json: Json = False) -> None:
    """Show the copies that are there, newest first."""
    found = with_memory(url, lambda hf: hf.backups.list())
    if json:
        say_json(
            [
                {
                    "path": one.path,
                    "at": one.at.isoformat(),
                    "bytes": one.bytes,
                    "schema": one.schema,
                    "scheduled": one.scheduled,
                }
                for one in found
            ]
        )
        return
    for one in found:
        say(f"{_time(one)}  {size(one.bytes):>9}  schema {one.schema}  {one.path}")
    say(f"{len(found)} backups")


def _time(made: Backup) -> str:
    return f"{made.at:%Y-%m-%d %H:%M:%S} UTC"


def _span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no span of time: 30m, 6h, 1d or 2w", param_hint="--every")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except (OverflowError, ValueError):
        raise typer.BadParameter(f"{text[:40]!r} is too long a time", param_hint="--every") from None
