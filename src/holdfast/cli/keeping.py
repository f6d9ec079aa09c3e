"""``holdfast restore``, ``stats`` and ``compact``: commands on a whole file."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from holdfast.app import restore as restore_backup
from holdfast.cli.console import say
from holdfast.cli.opening import File, Json, say_json, size, with_memory
from holdfast.memories.local import LocalHoldfast
from holdfast.ports.store import StoreStats


def restore(
    *,
    backup: Annotated[str, typer.Argument(help="The backup.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", help="The memory. Without it, $HOLDFAST_URL or .holdfast/holdfast.db.", show_default=False
        ),
    ] = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Keep nothing of what stands there now.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Try everything and change nothing.")] = False,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Go on when a damaged file there cannot tell what was forgotten."),
    ] = False,
) -> None:
    """Put a backup in the place of a memory, after erasing in it what was forgotten since."""
    done = asyncio.run(restore_backup(backup, to, discard=discard, dry_run=dry_run, anyway=anyway))
    if not done.sources:
        say("nothing was found that tells what was forgotten since the backup")
    for source in done.sources:
        say(f"what was forgotten is known from {source}")
    for source in done.damaged:
        say(f"{source} is damaged: what it no longer tells to be forgotten may come back")
    if done.kept is not None:
        say(f"what stands there {'stays' if done.done else 'would stay'} as {done.kept}")
    what = "restored" if done.done else "could be restored; nothing was changed"
    say(f"{done.path}: {what}; {done.forgotten} records forgotten again", good=True)


def stats(*, file: File = None, json: Json = False) -> None:
    """Show what a memory takes, by what it holds, and how many records there are."""
    found = with_memory(file, _stats)
    if json:
        say_json({"bytes": dict(found.bytes), "counts": dict(found.counts)})
        return
    for name, count in sorted(found.counts.items()):
        say(f"{name:>12}  {count:>12,}")
    for name, count in sorted(found.bytes.items(), key=lambda item: -item[1]):
        say(f"{name:>12}  {size(count):>12}")
    say(f"{size(sum(found.bytes.values()))} in all")


async def _stats(hf: LocalHoldfast) -> StoreStats:
    return await hf.store.stats()


def compact(file: File = None) -> None:
    """Give the disk back what a memory does not use any more; others wait meanwhile."""
    before, after = with_memory(file, _compacted)
    say(f"{size(before)} before, {size(after)} now")


async def _compacted(hf: LocalHoldfast) -> tuple[int, int]:
    before = await hf.store.stats()
    await hf.store.compact()
    after = await hf.store.stats()
    return sum(before.bytes.values()), sum(after.bytes.values())


def join(app: typer.Typer) -> None:
    """Add these commands to the program."""
    app.command(epilog="Example: holdfast restore backup.db --to memory.db")(restore)
    app.command(epilog="Example: holdfast stats memory.db")(stats)
    app.command(epilog="Example: holdfast compact memory.db")(compact)
