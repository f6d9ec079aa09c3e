"""Copying the file while others write."""

from __future__ import annotations

from pathlib import Path

import apsw

from holdfast.errors import AlreadyExists, StoreFailed
from holdfast.stores.sqlite.db import copy_file
from holdfast.stores.sqlite.reading import Reading


def backup(reading: Reading, target: Path) -> None:
    """Copy the file as it is now, while others write."""
    if target.exists():
        raise AlreadyExists(f"{target} exists already", hint="give a new path, or remove the old file first")
    if not target.parent.is_dir():
        raise StoreFailed(
            f"the folder of {target} does not exist", hint="make it first, or give another path"
        )
    try:
        copy_file(reading.connection, str(target))
    except apsw.Error as error:
        target.unlink(missing_ok=True)
        raise StoreFailed(
            f"{target} could not be written: {error}", hint="free space, or give another path"
        ) from error
