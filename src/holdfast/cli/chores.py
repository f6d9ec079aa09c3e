"""``holdfast chores``: background work, seen and steered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.cli.console import say
from holdfast.cli.opening import Json, Url, say_json, with_memory
from holdfast.errors import ChoreNotFound, InvalidInput
from holdfast.memories.local import LocalHoldfast
from holdfast.model.chore import Chore
from holdfast.model.values import JsonValue

app = typer.Typer(
    help="See background work, and take it up again or drop it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Space: TypeAlias = Annotated[str, typer.Option(help="The space; ~holdfast for the memory's own work.")]
States: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only of this state; may be repeated.", show_default=False),
]
Ids: TypeAlias = Annotated[list[str], typer.Argument(help="Ids, or how they begin.")]
MANY: Final = 1_000


@app.command("list", epilog="Example: holdfast chores list --state dead --url memory.db")
def list_chores(
    *, url: Url = None, space: Space = "default", state: States = None, json: Json = False
) -> None:
    """Show the chores of a space, oldest first."""
    found = with_memory(url, _asking(space, state))
    if json:
        say_json([_value(chore) for chore in found])
        return
    for line in _lines(found):
        say(line)


@app.command(epilog="Example: holdfast chores retry --all --url memory.db")
def retry(
    *,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids, or how they begin.")] = None,
    url: Url = None,
    space: Space = "default",
    everything: Annotated[bool, typer.Option("--all", help="All that are dead.")] = False,
) -> None:
    """Make dead or cancelled chores due now, with their attempts counted anew."""

    async def work(hf: LocalHoldfast) -> list[Chore]:
        chores = hf.space(space).chores
        found = await chores.dead(limit=MANY) if everything else await _named(hf, space, ids or [])
        for chore in found:
            await chores.retry(chore.id)
        return found

    if not ids and not everything:
        raise typer.BadParameter("give ids, or --all", param_hint="IDS")
    say(f"{len(with_memory(url, work))} chores are due again")


@app.command(epilog="Example: holdfast chores drop 01f3 --dry-run --url memory.db")
def drop(
    *,
    ids: Ids,
    url: Url = None,
    space: Space = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be dropped.")] = False,
) -> None:
    """Cancel chores that are not done; a result that still arrives is not written."""

    async def work(hf: LocalHoldfast) -> list[Chore]:
        found = await _named(hf, space, ids)
        for chore in () if dry_run else found:
            await hf.space(space).chores.drop(chore.id)
        return found

    found = with_memory(url, work)
    for line in _lines(found)[:-1]:
        say(line)
    say(f"{len(found)} chores {'would be' if dry_run else 'were'} dropped")


@app.command(epilog="Example: holdfast chores watch --once --url memory.db")
def watch(
    *,
    url: Url = None,
    space: Space = "default",
    state: States = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, for scripts.")] = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait between two looks.")] = 1.0,
) -> None:
    """Show the chores of a space again and again, until interrupted."""

    async def work(hf: LocalHoldfast) -> None:
        with Live(console=Console(), auto_refresh=False, transient=False) as live:
            while True:
                found = await _asking(space, state)(hf)
                live.update(Text("\n".join(_lines(found))), refresh=True)
                await asyncio.sleep(seconds)

    if once:
        list_chores(url=url, space=space, state=state)
        return
    try:
        with_memory(url, work)
    except KeyboardInterrupt:
        return


def _asking(space: str, states: list[str] | None) -> Callable[[LocalHoldfast], Awaitable[list[Chore]]]:
    async def ask(hf: LocalHoldfast) -> list[Chore]:
        return await hf.space(space).chores.list(states=states or (), limit=MANY)

    return ask


async def _named(hf: LocalHoldfast, space: str, ids: list[str]) -> list[Chore]:
    """The chores with these ids, of which the beginning is enough."""
    every = await hf.space(space).chores.list(limit=MANY)
    found: list[Chore] = []
    for given in ids:
        fitting = [chore for chore in every if chore.id.startswith(given.lower())]
        if not fitting:
            raise ChoreNotFound(
                f"no chore {given} in the space {space!r}", hint="look at holdfast chores list"
            )
        if len(fitting) > 1:
            raise InvalidInput(
                f"{len(fitting)} chores begin with {given}", code="id_ambiguous", hint="give more of the id"
            )
        found += fitting
    return found


def _lines(found: list[Chore]) -> list[str]:
    rows = [
        f"{chore.id}  {chore.state:<9}  {chore.kind:<16}  {chore.attempts}/{chore.max_attempts}"
        f"  due {chore.due_at:%Y-%m-%d %H:%M:%S}  {chore.last_error or ''}".rstrip()
        for chore in found
    ]
    return [*rows, f"{len(found)} chores"]


def _value(chore: Chore) -> dict[str, JsonValue]:
    """What others may know of a chore: no payload, which may hold what users said."""
    return {
        "id": chore.id,
        "kind": chore.kind,
        "state": str(chore.state),
        "bank": chore.place.bank,
        "attempts": chore.attempts,
        "max_attempts": chore.max_attempts,
        "due_at": chore.due_at.isoformat(),
        "created_at": chore.created_at.isoformat(),
        "last_error": chore.last_error,
    }
