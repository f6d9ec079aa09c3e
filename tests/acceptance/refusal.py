"""How a test says that a call is refused with a code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from holdfast import HoldfastError


@contextmanager
def refused(code: str, error: type[HoldfastError] = HoldfastError) -> Generator[None]:
    with pytest.raises(error) as caught:
        yield
    assert caught.value.code == code
