"""What is forgotten is nowhere in the files, whoever reads them meanwhile and wherever the process is killed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import holdfast
from holdfast.model.batch import Batch, Enqueue, Forget, Put
from holdfast.model.chore import ChoreDraft
from holdfast.model.document import DocumentRef
from holdfast.model.forget import Selector
from holdfast.model.scope import Place
from holdfast.testing import ManualClock
from holdfast.testing.making import Maker
from tests.faults.killing import KillingVfs, Trigger

WORD = "quetz\u00e4lfeathers"
"""In everything that is forgotten, and in nothing else."""
STEMMED = "quetzalfeather"
SUBJECT = f"{WORD} the subject"


def forms(word: str) -> Iterator[bytes]:
    """The bytes that a word may leave, in every way that a program may write it."""
    yield word.encode()
    yield word.encode("utf-16-le")
    yield word.encode("utf-16-be")
    yield json.dumps(word)[1:-1].encode()
    for shift in range(3):  # base64 depends on where in its groups of three bytes a text begins
        whole = base64.b64encode(b"\x00" * shift + word.encode())
        yield whole[-(-shift * 4 // 3) + (shift > 0) : -4]


NEEDLES = [*forms(WORD), *forms(STEMMED), *forms(WORD[:-1])]


def left_in(files: Sequence[Path]) -> dict[str, int]:
    counts = {file.name: sum(file.read_bytes().count(needle) for needle in NEEDLES) for file in files}
    return {name: count for name, count in counts.items() if count}


async def fill(hf: holdfast.LocalHoldfast, others: int, canaries: int) -> None:
    """Entries, documents with old versions and chores; every ``others // canaries``-th is to be forgotten."""
    bank = await hf.banks.create("notes", kind="general", dedupe="off")
    every = others // canaries
    new: list[holdfast.NewEntry] = []
    for n in range(others):
        if n % every:
            new.append(holdfast.NewEntry(f"plain entry {n} about tea", f"key-{n % 7}", {"n": n}))
        else:
            text = f"{WORD} number {n}: a long story about {WORD} and rain"
            key = SUBJECT if n % 2 else f"key-{n % 7}"
            new.append(
                holdfast.NewEntry(
                    text,
                    key,
                    {"note": f"{WORD} {n}", "deep": {"in": [WORD]}},
                    None,
                    WORD,
                    WORD,
                    f"{WORD} {n}",
                    SUBJECT,
                )
            )
    for start in range(0, len(new), 100):
        added = await bank.add_many(new[start : start + 100])
        for one in added[:: every * 2]:
            await bank.update(one.id, content=f"{one.content} corrected")
    for n in range(6):
        ref = DocumentRef("notes", "place", "block", f"{WORD} block {n}")
        for version in range(3):
            await commit(hf, Put(ref, made(hf), f"{WORD} version {version} " * 20, subject=SUBJECT))
    for n in range(4):
        draft = ChoreDraft(
            id=made(hf), kind="extract", place=Place("notes", SUBJECT), due_us=hf.clock.now_us() + 10**9,
            payload={"text": f"{WORD} {n}"}, dedupe=f"{WORD} {n}",
        )  # fmt: skip
        await commit(hf, Enqueue(draft))


makers: dict[int, Maker] = {}


def made(hf: holdfast.LocalHoldfast) -> str:
    return makers.setdefault(id(hf), Maker(hf.clock, seed=99)).id()


async def commit(hf: holdfast.LocalHoldfast, operation: Put | Enqueue) -> None:
    await hf.store.commit(Batch("default", made(hf), hf.clock.now_us(), (operation,)))


async def visible(hf: holdfast.LocalHoldfast) -> list[str]:
    bank = await hf.banks.get("notes")
    return [entry.content for entry in await bank.list(limit=1000)]


@pytest.mark.parametrize("large", [False, True], ids=["small file", "large file"])
async def test_no_byte_of_what_is_forgotten_is_left(
    tmp_path: Path, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr("holdfast.stores.sqlite.writer.SCRUB_BYTES", 0)
    path = tmp_path / "m.db"
    async with holdfast.open(path, clock=ManualClock()) as hf:
        await fill(hf, 2_000, 200)
        before = await hf.store.residue(NEEDLES)
        assert before["m.db"] + before.get("m.db-wal", 0) > 1_000
        receipt = await hf.forget(subject=SUBJECT, reason="asked")
        assert receipt.complete
        assert receipt.counts["entries"] == 200
        assert receipt.counts["documents"] == 6
        assert receipt.counts["chores"] == 4
        assert await hf.store.residue(NEEDLES) == {}
        assert await hf.receipt(receipt.id) == receipt
        assert len(await visible(hf)) == 1_000
        assert (await hf.store.check()).ok
    assert left_in(sorted(tmp_path.iterdir())) == {}


READER = """
    import sys
    import apsw
    connection = apsw.Connection(sys.argv[1])
    connection.execute("begin")
    connection.execute("select count(*) from entries").fetchall()
    print("reading", flush=True)
    sys.stdin.readline()
    connection.execute("commit")
    print("done", flush=True)
    sys.stdin.readline()
"""


async def test_a_reader_in_another_process_only_delays_a_forget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.SETTLE_SECONDS", 0.3)
    path, clock = tmp_path / "m.db", ManualClock()
    async with holdfast.open(path, clock=clock, worker="manual") as hf:
        await fill(hf, 100, 10)
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-c", textwrap.dedent(READER), str(path),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert await reader.stdout.readline() == b"reading\n"
        receipt = await hf.forget(subject=SUBJECT)
        assert (receipt.complete, receipt.waiting_for) == (False, ("wal",))
        assert await hf.receipt(receipt.id) == receipt
        assert (await hf.banks.get("notes")).name == "notes"
        await (await hf.banks.get("notes")).add("life goes on", key="k")
        reader.stdin.write(b"\n")
        assert await reader.stdout.readline() == b"done\n"
        clock.advance(seconds=60)
        assert await hf.chores.drain() >= 1
        assert (await hf.receipt(receipt.id)).complete
        assert await hf.store.residue(NEEDLES) == {}
        reader.stdin.write(b"\n")
        await reader.wait()


async def forget_there(path: Path, trigger: Trigger | None) -> None:
    clock = ManualClock()
    clock.advance(seconds=1_000)
    async with holdfast.open(path, clock=clock, worker="manual") as hf:
        if trigger is not None:
            trigger.armed = True
        await hf.forget(subject=SUBJECT)
        if trigger is not None:
            trigger.armed = False


def in_a_child(path: Path, at: int) -> int | None:
    """Forget in a child that is killed at that write or sync; how many there were, when it lived."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1  # an error must not lead the child back into the tests of its parent
        try:
            trigger = Trigger(at)
            vfs = KillingVfs(trigger)
            asyncio.run(forget_there(path, trigger))
            os.write(sender, trigger.calls.to_bytes(8, "big"))
            assert vfs is not None
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    os.close(sender)
    _, status = os.waitpid(child, 0)
    told = os.read(receiver, 8)
    os.close(receiver)
    assert (status == 0) == bool(told)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
    return int.from_bytes(told, "big") if told else None


async def made_file(path: Path) -> list[str]:
    async with holdfast.open(path, clock=ManualClock(), worker="manual") as hf:
        await fill(hf, 100, 10)
        return await visible(hf)


async def finished_after(path: Path, before: list[str]) -> bool:
    """Open a file again after its process was killed; whether the forget has happened, wholly or not at all."""
    clock = ManualClock()
    clock.advance(seconds=2_000)
    async with holdfast.open(path, clock=clock, worker="manual") as hf:
        await hf.chores.drain()
        now = await visible(hf)
        assert await hf.store.unsettled() == {}
        assert (await hf.store.check()).ok
        if now == before:
            return False
        assert now == [content for content in before if WORD not in content]
        assert await hf.store.residue(NEEDLES) == {}
    assert left_in(sorted(path.parent.iterdir())) == {}
    return True


async def killed_at(base: Path, folder: Path, at: int, before: list[str]) -> bool:
    folder.mkdir()
    path = folder / "m.db"
    shutil.copy(base, path)
    assert await asyncio.to_thread(in_a_child, path, at) is None
    return await finished_after(path, before)


async def killed_at_every(tmp_path: Path, step: int) -> list[bool]:
    base = tmp_path / "base.db"
    before = await made_file(base)
    whole = tmp_path / "whole.db"
    shutil.copy(base, whole)
    calls = await asyncio.to_thread(in_a_child, whole, 0)
    assert calls is not None
    assert calls > 50
    return [await killed_at(base, tmp_path / f"at-{at}", at, before) for at in range(1, calls, step)]


async def test_the_next_open_finishes_what_a_killed_process_began_to_forget(tmp_path: Path) -> None:
    happened = await killed_at_every(tmp_path, 9)
    assert happened == sorted(happened), "once durable, a forget stays so"
    assert set(happened) == {False, True}


@pytest.mark.soak
async def test_the_next_open_finishes_wherever_a_forget_was_killed(tmp_path: Path) -> None:
    happened = await killed_at_every(tmp_path, 1)
    assert happened == sorted(happened)


async def test_a_forget_that_no_chore_is_left_for_is_finished_within_the_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own chore found another one under way, which had looked before, and then its process was killed."""
    monkeypatch.setattr("holdfast.stores.sqlite.writer.SCRUB_BYTES", 0)
    clock = ManualClock()
    async with holdfast.open(tmp_path / "m.db", clock=clock, worker="manual") as hf:
        await fill(hf, 100, 10)
        await hf.store.commit(
            Batch("default", made(hf), hf.clock.now_us(), (Forget(Selector(subject=SUBJECT)),))
        )
        assert await hf.store.unsettled()
        await hf.chores.drain()
        clock.advance(seconds=60)
        await hf.chores.drain()
        assert await hf.store.unsettled() == {}
        assert await hf.store.residue(NEEDLES) == {}


async def test_looking_for_residue_keeps_no_file_open_that_is_gone(tmp_path: Path) -> None:
    counts: list[int] = []
    for number in range(6):
        async with holdfast.open(tmp_path / "m.db", worker="manual") as hf:
            bank = await hf.banks.ensure("b", kind="general")
            await bank.add(f"something long enough to be looked for {number}", key=f"k{number}")
            await hf.forget(bank="b", key=f"k{number}")
        counts.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
    assert counts[-1] == counts[1]


async def test_settling_rewrites_again_what_it_has_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.SCRUB_BYTES", 0)
    monkeypatch.setattr("holdfast.stores.sqlite.scrub.left_over", once := Once())
    async with holdfast.open(tmp_path / "m.db", clock=ManualClock(), worker="manual") as hf:
        await fill(hf, 100, 10)
        receipt = await hf.forget(subject=SUBJECT)
        assert once.asked > 1
        assert receipt.complete


class Once:
    """Says that something is left over, the first time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, *_: object) -> bool:
        self.asked += 1
        return self.asked == 1
