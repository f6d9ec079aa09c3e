"""What is told about an error: enough to find it, and nothing of what was worked on."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.errors import HoldfastError

LOG: Final = logging.getLogger("holdfast")
LENGTH: Final = 200


def told(error: BaseException) -> str:
    """The class and code of an error, where it was raised, and the same of its cause; never its message.

    Messages of models and parsers quote the text they were given, which is the content of the memory.
    """
    parts = [_one(error)]
    if error.__cause__ is not None:
        parts.append(_one(error.__cause__))
    return " from ".join(parts)[:LENGTH]


def _one(error: BaseException) -> str:
    name = type(error).__qualname__
    if isinstance(error, HoldfastError):
        name = f"{name} ({error.code})"
    trace = error.__traceback__
    if trace is None:
        return name
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "?")
    return f"{name} at {module}:{trace.tb_lineno}"
