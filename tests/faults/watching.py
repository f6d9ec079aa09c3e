"""A VFS that writes down every write and sync, can fail them, and can tell what a power cut would leave."""

# pyright: reportUnknownMemberType=false
# The stubs of the driver name a type that Python 3.11 does not have.

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import apsw

_numbers = itertools.count()
Logged: TypeAlias = tuple[str, str, int, bytes]


@dataclass
class Disk:
    """What reached the disk, in order: ``("write", file, offset, data)``, ``("truncate", …)``, ``("sync", …)``."""

    name: str = ""
    log: list[Logged] = field(default_factory=list["Logged"])
    fail_syncs: int = 0
    fail_writes: int = 0

    def syncs(self, ending: str) -> int:
        """How often files of this ending were synced."""
        return sum(1 for what, file, _, _ in self.log if what == "sync" and file.endswith(ending))

    def after_power_cut(self, until: int, folder: Path) -> None:
        """Write the files as they are when everything that was not synced by then is lost."""
        kept: dict[str, bytearray] = {}
        waiting: dict[str, list[tuple[str, int, bytes]]] = {}
        for what, file, offset, data in self.log[:until]:
            if what == "sync":
                for step in waiting.pop(file, []):
                    _apply(kept.setdefault(file, bytearray()), *step)
            elif what == "delete":
                kept.pop(file, None)
                waiting.pop(file, None)
            else:
                waiting.setdefault(file, []).append((what, offset, data))
        for file, content in kept.items():
            if not file.endswith("-shm"):
                (folder / file).write_bytes(bytes(content))


def _apply(content: bytearray, what: str, offset: int, data: bytes) -> None:
    end = offset + len(data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if what == "write":
        content[offset:end] = data
    else:
        del content[offset:]


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: object, flags: list[int]) -> None:
        self._disk = disk
        found = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(str(found)).name
        super().__init__("", name, flags)  # type: ignore[arg-type] # the driver hands over what it takes

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.fail_writes and self._name.endswith("-wal"):
            self._disk.fail_writes -= 1
            raise apsw.FullError("no space left")
        self._disk.log.append(("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.log.append(("truncate", self._name, newsize, b""))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        if self._disk.fail_syncs and self._name.endswith("-wal"):
            self._disk.fail_syncs -= 1
            raise apsw.IOError("sync failed")
        super().xSync(flags)
        self._disk.log.append(("sync", self._name, 0, b""))


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: object, flags: list[int]) -> _File:
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._disk.log.append(("delete", Path(filename).name, 0, b""))
        super().xDelete(filename, syncdir)


def watched_disk() -> tuple[Disk, apsw.VFS]:
    """A disk under a VFS name of its own; keep the VFS for as long as connections use it."""
    disk = Disk(f"watched-{next(_numbers)}")
    return disk, _Vfs(disk)
