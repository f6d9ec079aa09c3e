"""A VFS, the default one of its process, that kills the process at a write, sync, truncation or removal."""

# pyright: reportUnknownMemberType=false
# The stubs of the driver name a type that Python 3.11 does not have.

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import apsw


@dataclass
class Trigger:
    """Counts what would change the disk while it is armed; kills before the one that is wanted."""

    at: int
    calls: int = 0
    armed: bool = False

    def pull(self) -> None:
        if self.armed:
            self.calls += 1
            if self.calls == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


class _File(apsw.VFSFile):
    def __init__(self, trigger: Trigger, below: str, name: object, flags: list[int]) -> None:
        self._trigger = trigger
        super().__init__(below, name, flags)  # type: ignore[arg-type] # the driver hands over what it takes

    def xWrite(self, data: bytes, offset: int) -> None:
        self._trigger.pull()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._trigger.pull()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._trigger.pull()
        super().xSync(flags)


class KillingVfs(apsw.VFS):
    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._below = apsw.vfs_names()[0]  # by name: the default is this one from now on
        super().__init__("killing", self._below, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> _File:
        return _File(self._trigger, self._below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._trigger.pull()
        super().xDelete(filename, syncdir)
