"""A disk under the database whose calls can be written down, changed and refused: a VFS of the driver."""

# pyright: reportUnknownMemberType=false
# The stubs of the driver name a type that Python 3.11 does not have.

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

import apsw

_numbers: Final = itertools.count()


class Disk:
    """What a disk does beside its work: by default nothing. An error raised here is what the database sees.

    Files are told by their names without the folder. Nothing is really synced: these disks are simulated.
    """

    def opening(self, file: str) -> None:
        """A file is opened, or made."""

    def made(self, file: str) -> None:
        """It was made."""

    def reading(self, file: str) -> None:
        """A part of a file is read."""

    def writing(self, file: str, offset: int, data: bytes) -> bytes:
        """A part of a file is written; what is returned is written in its place."""
        return data

    def written(self, file: str) -> None:
        """The part has been written."""

    def truncating(self, file: str, size: int) -> None:
        """A file is cut, or made longer."""

    def syncing(self, file: str) -> None:
        """A file has to be safe when this returns."""

    def measuring(self, file: str) -> None:
        """The size of a file is asked for."""

    def deleting(self, file: str, *, safely: bool) -> None:
        """A file is deleted; ``safely`` when that has to be safe when this returns."""


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, path: str, name: object, flags: list[int]) -> None:
        self._disk = disk
        self._name = Path(path).name
        new = not Path(path).exists()
        disk.opening(self._name)
        super().__init__("", name, flags)  # type: ignore[arg-type] # the driver hands over what it takes
        if new:
            disk.made(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.reading(self._name)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(self._disk.writing(self._name, offset, bytes(data)), offset)
        self._disk.written(self._name)

    def xTruncate(self, newsize: int) -> None:
        self._disk.truncating(self._name, newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.syncing(self._name)

    def xFileSize(self) -> int:
        self._disk.measuring(self._name)
        return super().xFileSize()

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """An error that the database does not pass on, as when it takes a transaction back."""
        return True


class _Vfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        self._disk = disk
        super().__init__(name, "")

    def xOpen(self, name: object, flags: list[int]) -> _File:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _File(self._disk, str(path), name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._disk.deleting(Path(filename).name, safely=syncdir)
        super().xDelete(filename, syncdir)

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """As that of a file."""
        return True


@contextmanager
def mounted(disk: Disk) -> Generator[str]:
    """The name under which connections find a disk, for as long as they use it."""
    name = f"holdfast-{next(_numbers)}"
    vfs = _Vfs(name, disk)
    try:
        yield name
    finally:
        vfs.unregister()
