"""The command line: joins the groups of commands, and is the one place where errors become words and an exit status.

0 means that everything is well, 1 that something is not, 2 that the command was called wrongly.
"""

from __future__ import annotations

import os
import sys

import typer

from holdfast.cli import backup, chores, damage, keeping, selftest
from holdfast.cli.console import complain
from holdfast.errors import HoldfastError, StoreFailed

app = typer.Typer(
    name="holdfast",
    help="One memory for agents: looking after it from the command line.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(selftest.app, name="selftest")
app.add_typer(backup.app, name="backup")
app.add_typer(chores.app, name="chores")
keeping.join(app)
app.command(epilog="Example: holdfast check memory.db")(damage.check)
app.command(epilog="Example: holdfast repair memory.db --to whole.db")(damage.repair)


@app.callback()
def about() -> None:
    """Look after a memory."""


def main() -> None:
    """Run the command of this process, and end it with an exit status; no error comes out as a traceback."""
    try:
        app()
    except HoldfastError as error:
        complain(error)
    except OSError as error:
        complain(StoreFailed(str(error), hint="check that the path exists and may be written"))
    except Exception as error:  # the boundary of the process: a defect is told in words as well
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        complain(
            HoldfastError(
                f"{type(error).__name__}: {error}",
                hint="this is a defect of holdfast: run it again with HOLDFAST_DEBUG=1 and report what it prints",
            )
        )
    sys.exit(1)
