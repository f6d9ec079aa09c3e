"""Comparing what is there with what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import StoreDamaged
from holdfast.testing.selftest.outcome import Tally
from holdfast.testing.selftest.scene import Scene, look
from holdfast.testing.selftest.script import Lane, State


async def judge(scene: Scene, lanes: Sequence[Lane], acknowledged: Sequence[int], tally: Tally) -> list[int]:
    """Where each lane stands; what is missing, there in part or inconsistent is noted."""
    positions: list[int] = []
    for lane, acked in zip(lanes, acknowledged, strict=True):
        try:
            seen = await look(scene, lane)
        except StoreDamaged as damage:
            tally.find(f"{lane.key}: {damage.message}")
            positions.append(acked)
            continue
        for disagreement in seen.disagreements:
            tally.find(disagreement)
        positions.append(position_of(lane, seen.state, acked, tally))
    return positions


def position_of(lane: Lane, state: State, acked: int, tally: Tally) -> int:
    """After which step a lane stands: the last acknowledged one or, when another was under way, that one."""
    if state == lane.after(acked):
        return acked
    if state == lane.after(acked + 1):
        tally.undecided += 1
        return acked + 1
    for earlier in range(acked - 1, -1, -1):
        if state == lane.after(earlier):
            tally.lost += acked - earlier
            tally.find(f"{lane.key}: {acked - earlier} acknowledged writes are lost")
            return earlier
    tally.partial += 1
    tally.find(f"{lane.key}: what is there is not what any number of whole steps leaves")
    return acked


async def check(scene: Scene, tally: Tally) -> None:
    """Have the store compare everything with its hashes."""
    report = await scene.hf.store.check()
    for finding in report.findings:
        tally.find(f"check: {finding.where}: {finding.what}")
