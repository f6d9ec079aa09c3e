"""The benchmarks measure what the product does today."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import files, one_caller


def test_the_floor_sends_the_statements_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bare loop that the face is measured against writes the same rows with the same statements."""
    monkeypatch.setattr(files, "scratch", lambda: tmp_path)
    plan = one_caller.planned(160, seed=7)
    assert len(plan.adds) == 160
