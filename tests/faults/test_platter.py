"""The model of a disk that loses its power: what is synced stays, and of the rest anything may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from holdfast.testing.selftest.platter import SECTOR, Event, Platter

WAL = "m.db-wal"
OLD, NEW = b"o" * (4 * SECTOR), b"n" * (4 * SECTOR)


def outcomes(events: Sequence[Event], cuts: int = 300) -> list[Mapping[str, bytes]]:
    """What is found after many cuts at the end of these events."""
    platter = Platter()
    for event in events:
        platter.add(event)
    chance = Random(1)
    return [platter.after_power_cut(chance) for _ in range(cuts)]


SAFE = (Event("make", WAL), Event("write", WAL, 0, OLD), Event("sync", WAL))


def test_what_was_synced_is_always_there() -> None:
    assert outcomes(SAFE) == [{WAL: OLD}] * 300


def test_what_was_not_synced_is_kept_lost_or_torn_into_sectors() -> None:
    found = {left[WAL] for left in outcomes([*SAFE, Event("write", WAL, 0, NEW)])}
    assert {OLD, NEW} <= found
    torn = found - {OLD, NEW}
    assert torn
    for content in torn:
        sectors = {content[start : start + SECTOR] for start in range(0, len(content), SECTOR)}
        assert sectors == {OLD[:SECTOR], NEW[:SECTOR]}


def test_later_writes_may_be_there_without_earlier_ones() -> None:
    small = [Event("write", WAL, at, b"x") for at in range(3)]
    found = {left[WAL][:3] for left in outcomes([*SAFE, *small])}
    assert {b"ooo", b"xxx", b"oxo", b"oox", b"xoo"} <= found


def test_a_cut_of_a_file_is_lost_like_a_write() -> None:
    found = {left[WAL] for left in outcomes([*SAFE, Event("truncate", WAL, 1)])}
    assert found == {OLD, b"o"}
    synced = [*SAFE, Event("truncate", WAL, 1), Event("sync", WAL)]
    assert outcomes(synced) == [{WAL: b"o"}] * 300


def test_a_new_file_is_found_for_certain_once_its_folder_is_synced() -> None:
    database = [Event("make", "m.db"), Event("write", "m.db", 0, OLD), Event("sync", "m.db")]
    assert {tuple(left) for left in outcomes(database)} == {(), ("m.db",)}
    assert outcomes([*database, *SAFE]) == [{"m.db": OLD, WAL: OLD}] * 300


def test_a_deleted_file_may_come_back_until_its_folder_is_synced() -> None:
    assert {tuple(left) for left in outcomes([*SAFE, Event("delete", WAL)])} == {(), (WAL,)}
    assert outcomes([*SAFE, Event("delete safely", WAL)]) == [{}] * 300


def test_a_file_made_anew_is_another_file() -> None:
    again = [*SAFE, Event("delete", WAL), Event("make", WAL), Event("write", WAL, 0, b"n")]
    found = {left.get(WAL) for left in outcomes(again)}
    assert found == {OLD, None, b"", b"n"}
