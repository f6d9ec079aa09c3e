"""Starting the processes that a self-test is made of."""

from __future__ import annotations

import os
import sys
from subprocess import PIPE, Popen


def launched(module: str, *arguments: str, **environment: str) -> Popen[bytes]:
    """Run a module in a process that finds the same packages as this one; talk with it over pipes."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, **environment, "PYTHONPATH": paths},
    )
