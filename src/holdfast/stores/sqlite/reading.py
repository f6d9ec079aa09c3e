"""What a reader holds, and the snapshot that its statements share."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.layout import Layout
from holdfast.stores.sqlite.places import Names


@dataclass(slots=True)
class Reading:
    """A reader's connection, and what it knows of the file."""

    connection: Connection
    path: Path
    connect: Callable[[], Connection]
    layout: Layout
    now_us: Callable[[], int]
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.layout)

    @contextmanager
    def snapshot(self) -> Generator[Connection]:
        """Several statements on one state of the file."""
        self.connection.execute("begin")
        try:
            yield self.connection
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise
        self.connection.execute("commit")
