"""``holdfast selftest``: shows on this machine that what was acknowledged is kept.

Each test is imported by its own command: together they would triple the time that any other command takes to start.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeAlias

import typer

from holdfast.cli.console import progress, say
from holdfast.testing.selftest.outcome import Outcome

app = typer.Typer(
    help="Show on this machine that nothing acknowledged is lost. Works on files of its own.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Times: TypeAlias = Annotated[int, typer.Option("--n", min=1, help="How many times.")]
Points: TypeAlias = Annotated[int, typer.Option("--n", min=0, help="How many failures; 0 for all.")]
Seconds: TypeAlias = Annotated[float, typer.Option(min=1, help="How long the processes act.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Another seed, another course of events.")]
Folder: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Where the files are made, and removed: on the disk to be tested.", file_okay=False),
]


@app.command(epilog="Example: holdfast selftest crash --n 200 --folder .")
def crash(n: Times = 1000, folder: Folder = None, seed: Seed = 0) -> None:
    """Kill a writing process again and again, and look for each write that it had acknowledged."""
    from holdfast.testing.selftest.crash import crash_test

    with _place(folder) as place, progress("killing") as tell:
        outcome = crash_test(place, n, seed=seed, progress=tell)
    _conclude(outcome)


@app.command(epilog="Example: holdfast selftest powercut --n 200")
def powercut(n: Times = 1000, folder: Folder = None, seed: Seed = 0) -> None:
    """Cut the power of a simulated disk, which loses or tears what was not synced, and open what is left."""
    from holdfast.testing.selftest.powercut import powercut_test

    with _place(folder) as place, progress("cutting") as tell:
        outcome = powercut_test(place, n, seed=seed, progress=tell)
    _conclude(outcome)


@app.command(epilog="Example: holdfast selftest faults --n 200")
def faults(n: Points = 1000, folder: Folder = None, seed: Seed = 0) -> None:
    """Let each call to a simulated disk fail in turn: unreadable, full, cut short, not safe."""
    from holdfast.testing.selftest.faults import faults_test

    with _place(folder) as place, progress("failing") as tell:
        outcome = faults_test(place, n, seed=seed, progress=tell)
    _conclude(outcome)


@app.command(epilog="Example: holdfast selftest processes --seconds 10 --folder .")
def processes(seconds: Seconds = 60.0, folder: Folder = None, seed: Seed = 0) -> None:
    """Let eight processes with four threads each work on one file, and look for each thing that they wrote."""
    from holdfast.testing.selftest.processes import processes_test

    with _place(folder) as place, progress("working") as tell:
        outcome = processes_test(place, seconds, seed=seed, progress=tell)
    _conclude(outcome)


@app.command(epilog="Example: holdfast selftest backup --n 10 --folder .")
def backup(n: Times = 100, folder: Folder = None, seed: Seed = 0) -> None:
    """Back up a memory while others write to it, restore each backup, and look whether it shows one moment."""
    from holdfast.testing.selftest.backup import backup_test

    with _place(folder) as place, progress("backing up") as tell:
        outcome = backup_test(place, n, seed=seed, progress=tell)
    _conclude(outcome)


@app.command(epilog="Example: holdfast selftest damage --n 100")
def damage(n: Times = 1000, folder: Folder = None, seed: Seed = 0) -> None:
    """Damage 1 to 64 bytes of a file again and again: a check finds it, no read is wrong, a repair keeps the rest."""
    from holdfast.testing.selftest.damage import damage_test

    with _place(folder) as place, progress("damaging") as tell:
        outcome = damage_test(place, n, seed=seed, progress=tell)
    _conclude(outcome)


@contextmanager
def _place(folder: Path | None) -> Generator[Path]:
    """An empty folder for the files of a test, removed afterwards."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="holdfast-selftest-", dir=folder) as place:
        yield Path(place)


def _conclude(outcome: Outcome) -> None:
    for finding in outcome.findings:
        say(finding, good=False)
    say(f"{outcome.name}: {'ok' if outcome.ok else 'FAILED'}: {outcome.line}", good=outcome.ok)
    raise typer.Exit(0 if outcome.ok else 1)
