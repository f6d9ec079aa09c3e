"""The shipped self-tests find nothing in this store, and find what is wrong in a worse one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.stores.sqlite import backing_up
from holdfast.testing.selftest.backup import backup_test
from holdfast.testing.selftest.crash import crash_test
from holdfast.testing.selftest.powercut import powercut_test
from holdfast.testing.selftest.processes import processes_test
from holdfast.testing.selftest.script import KINDS, Lane, State


class Told:
    """Progress as it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.steps.append((done, total))


def test_killed_writers_lose_nothing_and_leave_nothing_in_part(tmp_path: Path) -> None:
    told = Told()
    outcome = crash_test(tmp_path, 100, progress=told)
    assert outcome.findings == ()
    assert outcome.figures["kills"] >= 100
    assert outcome.figures["acknowledged"] > 100
    assert outcome.figures["killed_openings"] > 0
    assert told.steps[-1] == (100, 100)


def test_the_crash_test_notices_a_store_that_acknowledges_too_early(tmp_path: Path) -> None:
    outcome = crash_test(tmp_path, 10, writer="tests.faults.early")
    assert not outcome.ok
    assert outcome.figures["lost"] > 0
    assert "lost" in outcome.line


def test_backups_under_load_show_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr("holdfast.testing.selftest.backup.A_FILE", 5)
    outcome = backup_test(tmp_path, 10, progress=told)
    assert outcome.findings == ()
    assert outcome.figures["backups"] == 10
    assert outcome.figures["acknowledged"] > 100
    assert told.steps[-1] == (10, 10)


@pytest.mark.soak
def test_a_hundred_backups_under_load_show_one_moment(tmp_path: Path) -> None:
    assert backup_test(tmp_path, 100).findings == ()


def test_the_backup_test_notices_a_copy_without_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_the_file_alone(source: backing_up.Source, _path: Path, part: Path, _stop: object) -> None:
        shutil.copyfile(source.path, part)

    monkeypatch.setattr(backing_up, "_write_part", of_the_file_alone)
    outcome = backup_test(tmp_path, 5)
    assert not outcome.ok
    assert outcome.figures["lost"] > 0


def test_power_cuts_lose_nothing_and_leave_nothing_in_part(tmp_path: Path) -> None:
    told = Told()
    outcome = powercut_test(tmp_path, 100, progress=told)
    assert outcome.findings == ()
    assert outcome.figures["acknowledged"] > 1000
    assert told.steps[-1] == (100, 100)
    assert list(tmp_path.iterdir()) == []


def test_the_power_cut_test_notices_writes_that_are_not_synced(tmp_path: Path) -> None:
    outcome = powercut_test(tmp_path, 40, synchronous="normal")
    assert not outcome.ok
    assert outcome.figures["cuts_that_lost"] > 0
    assert outcome.figures["partial"] == 0


def test_processes_on_one_file_lose_and_double_nothing_and_nobody_waits_long(tmp_path: Path) -> None:
    # With longer pauses than by hand: other tests run beside this one.
    outcome = processes_test(tmp_path, 10, pause_ms=150)
    assert outcome.findings == ()
    assert outcome.figures["writes"] > 500
    assert outcome.figures["slowest_share"] >= 0.25
    assert 0 < outcome.figures["largest_log_mb"] < 32


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_thousand_kills_and_cuts_and_a_minute_of_processes_lose_nothing(tmp_path: Path, seed: int) -> None:
    assert crash_test(tmp_path / "crash", 1000, seed=seed).findings == ()
    assert powercut_test(tmp_path / "powercut", 1000, seed=seed).findings == ()
    assert processes_test(tmp_path, 60, seed=seed).findings == ()


def test_a_script_is_the_same_for_the_same_seed_and_holds_every_kind_of_step() -> None:
    one, other = Lane(7, 1), Lane(7, 1)
    count = len(KINDS)
    assert [one.step(number) for number in range(1, count + 1)] == [
        other.step(number) for number in range(1, count + 1)
    ]
    assert Lane(8, 1).step(1) != one.step(1) or Lane(8, 1).step(2) != one.step(2)
    kinds = {type(one.step(number)).__name__ for number in range(1, 2 * count + 1)}
    assert kinds == {"Add", "Update", "SetValue", "Forget"}
    states = [one.after(number) for number in range(2 * count + 1)]
    assert states[0] == State()
    assert len(set(states)) == len(states)
