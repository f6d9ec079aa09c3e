"""The judge of the self-tests knows a loss, half a batch and an index that disagrees when it sees one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.stores.sqlite.db import open_connection
from holdfast.testing.selftest.judging import judge, position_of
from holdfast.testing.selftest.outcome import FINDINGS, Outcome, Tally
from holdfast.testing.selftest.scene import Player, look, opened, set_up
from holdfast.testing.selftest.script import Add, Lane

LANE = Lane(3, 0)
STEPS = 20
BATCH = next(
    number
    for number in range(1, STEPS)
    if isinstance(step := LANE.step(number), Add) and len(step.contents) > 1
)


def judged(state_after: int, acknowledged: int) -> tuple[int, Tally]:
    tally = Tally()
    return position_of(LANE, LANE.after(state_after), acknowledged, tally), tally


def test_what_was_acknowledged_is_enough_and_one_step_more_may_be_there() -> None:
    assert judged(5, 5) == (5, Tally())
    assert judged(6, 5) == (6, Tally(undecided=1))


def test_fewer_steps_than_were_acknowledged_are_lost_writes() -> None:
    position, tally = judged(5, 8)
    assert (position, tally.lost, tally.partial) == (5, 3, 0)
    assert tally.findings


def test_half_a_batch_is_partial() -> None:
    whole = LANE.after(BATCH)
    half = replace(whole, entries=whole.entries[:-1])
    tally = Tally()
    position_of(LANE, half, BATCH - 1, tally)
    assert (tally.lost, tally.partial) == (0, 1)
    assert tally.findings


def test_more_than_was_under_way_is_not_let_through() -> None:
    _, tally = judged(8, 5)
    assert tally.partial == 1


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("delete from fresh where number=(select max(number) from fresh)", "word index"),
        ("update tail set vectors=zeroblob(8) where row=(select max(row) from tail)", "vectors"),
        ("delete from tail where row=(select max(row) from tail)", "vectors"),
        ("update entries set content=content || ' tea' where row=(select max(row) from entries)", "damaged"),
    ],
)
async def test_indexes_have_to_agree_with_entries(tmp_path: Path, damage: str, told: str) -> None:
    path = tmp_path / "m.db"
    hf = await opened(path)
    scene = await set_up(hf)
    player = Player(scene, LANE)
    for number in range(1, STEPS + 1):
        await player.play(number)
    seen = await look(scene, LANE)
    assert (seen.state, seen.disagreements) == (LANE.after(STEPS), ())
    other = open_connection(str(path), readonly=False, vfs=None)
    other.execute(damage)
    other.close()
    tally = Tally()
    await judge(scene, [LANE], [STEPS], tally)
    assert any(told in finding for finding in tally.findings)
    await hf.aclose()


def test_many_findings_are_cut_short_and_any_one_is_a_failure() -> None:
    tally = Tally()
    for number in range(FINDINGS + 5):
        tally.find(f"finding {number}")
    assert len(tally.findings) == FINDINGS + 1
    assert tally.findings[-1] == "and more"
    assert not Outcome("x", "line", {}, tuple(tally.findings)).ok
    assert Outcome("x", "line", {}).ok
