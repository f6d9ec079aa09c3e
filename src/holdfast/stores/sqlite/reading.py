"""What a reader holds, and the snapshot that its statements share."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.guards import Verified
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
    verified: Verified = field(default_factory=Verified)

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
                with suppress(apsw.Error):  # of a file that is damaged; the first error tells of it
                    self.connection.execute("rollback")
            raise
        self.connection.execute("commit")
