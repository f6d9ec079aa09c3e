"""The command line: what it says, where, and with which exit status."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import typer

import holdfast
from holdfast.cli.main import app
from holdfast.model.batch import Batch, Enqueue, Fail
from holdfast.model.chore import ChoreDraft
from holdfast.model.scope import Place
from holdfast.stores.sqlite.db import open_connection

EXAMPLE = re.compile(r"Example: (holdfast [^\n]+)")
QUICK = {"--n": "3", "--seconds": "1"}


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a user does, in a pipe."""
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder,
        env={**plain, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def commands(group: typer.Typer, *names: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Every command of the program: the words that call it, what it does, and its example."""
    for command in group.registered_commands:
        assert command.callback is not None
        (example,) = EXAMPLE.findall(command.epilog or "") or [""]
        yield (*names, command.name or command.callback.__name__), command.callback.__doc__ or "", example
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from commands(below.typer_instance, *names, str(below.name))


COMMANDS = {" ".join(names): (names, told, example) for names, told, example in commands(app)}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does_with_an_example_of_itself(command: str) -> None:
    names, told, example = COMMANDS[command]
    assert told.endswith(".")
    assert shlex.split(example)[1 : len(names) + 1] == list(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_runs(tmp_path: Path, command: str) -> None:
    """As it stands in the help, but for how long, beside a memory and its backup."""
    words = shlex.split(COMMANDS[command][2])[1:]
    own_files = words[0] == "selftest"
    if not own_files:
        scene(tmp_path)
    for option, value in QUICK.items():
        if option in words:
            words[words.index(option) + 1] = value
    done = run(*words, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert not own_files or list(tmp_path.iterdir()) == []


CHORE = "01f3" + "0" * 28


def scene(folder: Path) -> None:
    """A memory with a chore that is dead and one that waits, and a backup."""

    async def make() -> None:
        async with holdfast.open(folder / "memory.db", worker="manual") as hf:
            await hf.values.set("a", "b")
            for number, identifier in enumerate((CHORE, "02" + CHORE[2:])):
                draft = ChoreDraft(
                    id=identifier, kind="k", place=Place("b", "k"), due_us=number, max_attempts=1
                )
                await hf.store.commit(Batch("default", f"{number + 1:032x}", 0, (Enqueue(draft),)))
            (taken,) = await hf.store.lease(worker="w", now_us=5, until_us=6)
            fail = Fail(taken.id, taken.token, "KeyError", None)
            await hf.store.commit(Batch("default", "9" * 32, 0, (fail,)))
            await hf.backups.make(folder / "backup.db")

    asyncio.run(make())


def test_a_span_beyond_all_time_is_a_wrong_argument(tmp_path: Path) -> None:
    told = run("backup", "schedule", "b", "--every", "99999999999d", "--url", "memory.db", folder=tmp_path)
    assert told.returncode == 2
    assert "too long" in told.stderr + told.stdout
    assert "Traceback" not in told.stderr


def test_a_restore_over_what_tells_nothing_says_how_to_go_on(tmp_path: Path) -> None:
    scene(tmp_path)
    run("backup", "make", "copy.db", "--url", "memory.db", folder=tmp_path)
    (tmp_path / "memory.db").write_text("no memory any more")
    refused = run("restore", "copy.db", "--to", "memory.db", folder=tmp_path)
    assert refused.returncode != 0
    assert "--anyway" in refused.stderr + refused.stdout
    done = run("restore", "copy.db", "--to", "memory.db", "--anyway", folder=tmp_path)
    assert done.returncode == 0
    assert "is damaged" in done.stdout


def test_a_backup_is_made_listed_and_restored(tmp_path: Path) -> None:
    scene(tmp_path)
    made = run("backup", "make", "copy.db", "--verify", "--url", "memory.db", folder=tmp_path)
    assert made.stdout.startswith(f"{tmp_path / 'copy.db'}: ")
    listed = run("backup", "list", "--json", HOLDFAST_URL="memory.db", folder=tmp_path)
    assert [Path(one["path"]).name for one in json.loads(listed.stdout)] == ["copy.db", "backup.db"]
    tried = run("restore", "copy.db", "--to", "memory.db", "--dry-run", folder=tmp_path)
    assert "nothing was changed" in tried.stdout
    done = run("restore", "copy.db", HOLDFAST_URL="memory.db", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{tmp_path / 'memory.db'}: restored; 0 records forgotten again"
    assert (tmp_path / "memory.db.before-restore").exists()


def test_a_schedule_is_set_and_taken_away(tmp_path: Path) -> None:
    scene(tmp_path)
    done = run(
        "backup", "schedule", "b", "--every", "6h", "--keep", "3", "--url", "memory.db", folder=tmp_path
    )
    assert done.stdout == f"a backup into {tmp_path / 'b'} every 6h, the newest 3 stay\n"
    wrong = run("backup", "schedule", "b", "--every", "soon", "--url", "memory.db", folder=tmp_path)
    assert wrong.returncode == 2
    assert run("backup", "unschedule", "--url", "memory.db", folder=tmp_path).returncode == 0


def test_stats_are_for_people_and_programs(tmp_path: Path) -> None:
    scene(tmp_path)
    told = run("stats", "memory.db", folder=tmp_path).stdout
    assert re.search(r"documents +1\n", told)
    assert told.splitlines()[-1].endswith("in all")
    found = json.loads(run("stats", "memory.db", "--json", folder=tmp_path).stdout)
    assert (found["counts"]["documents"], found["counts"]["chores"]) == (1, 2)
    assert found["bytes"]["documents"] > 0


def test_chores_are_listed_retried_and_dropped(tmp_path: Path) -> None:
    scene(tmp_path)

    def chores(*words: str) -> subprocess.CompletedProcess[str]:
        return run("chores", *words, "--url", "memory.db", folder=tmp_path)

    def states() -> dict[str, str]:
        return {one["id"][:2]: one["state"] for one in json.loads(chores("list", "--json").stdout)}

    assert states() == {"01": "dead", "02": "queued"}
    assert chores("list", "--state", "dead").stdout.splitlines()[-1] == "1 chores"
    assert chores("watch", "--once").stdout.splitlines()[-1] == "2 chores"
    ambiguous = chores("drop", "0")
    assert ambiguous.returncode == 1
    assert "2 chores begin with 0" in ambiguous.stderr
    assert "no chore ff" in chores("drop", "ff").stderr
    assert chores("drop", "02", "--dry-run").stdout.splitlines()[-1] == "1 chores would be dropped"
    assert states() == {"01": "dead", "02": "queued"}
    assert chores("drop", "02").returncode == 0
    assert chores("retry", "01").returncode == 0
    assert states() == {"01": "queued", "02": "cancelled"}
    assert chores("retry").returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        ["stats", "missing.db"],
        ["compact", "missing.db"],
        ["backup", "make", "--url", "missing.db"],
        ["chores", "list", "--url", "missing.db"],
        ["restore", "missing.db", "--to", "new.db"],
        ["stats", "foreign.db"],
        ["stats", "newer.db"],
        ["restore", "foreign.db", "--to", "new.db"],
        ["backup", "make", "backup.db", "--url", "memory.db"],
        ["chores", "list", "--state", "odd", "--url", "memory.db"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_told_with_the_next_step(tmp_path: Path, command: list[str]) -> None:
    scene(tmp_path)
    (tmp_path / "foreign.db").write_bytes(b"not a database" * 1_000)
    newer = open_connection(str(tmp_path / "newer.db"), readonly=False, vfs=None)
    newer.execute("pragma application_id=1213156420; pragma user_version=99; create table t(x)")
    newer.close()
    before = sorted(tmp_path.iterdir())
    done = run(*command, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    cause, step = done.stderr.splitlines()
    assert cause.startswith("error: ")
    assert step.startswith("next step: ")
    assert [file for file in sorted(tmp_path.iterdir()) if file.suffix != ".lock"] == [
        file for file in before if file.suffix != ".lock"
    ]


async def make_memory(path: Path) -> None:
    """A small memory."""
    async with holdfast.open(path, worker="manual") as hf:
        bank = await hf.banks.create("notes", kind="general")
        for number in range(5):
            await bank.add(f"tea number {number}", key="alice")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A folder with a memory in which one letter is another."""
    path = tmp_path / "memory.db"
    asyncio.run(make_memory(path))
    data = bytearray(path.read_bytes())
    data[data.find(b"tea number 3")] = ord("s")
    path.write_bytes(data)
    return tmp_path


def test_a_check_tells_where_what_and_the_next_step(damaged: Path) -> None:
    done = run("check", "memory.db", folder=damaged)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("entries: ")
    assert "next step: run: holdfast repair memory.db, or restore a backup" in lines
    assert re.fullmatch(r"memory.db: 2 findings: \d+ rows compared with their guards", lines[-1])
    told = json.loads(run("check", "--json", folder=damaged, HOLDFAST_URL="sqlite:///memory.db").stdout)
    assert (told["ok"], told["findings"][0]["where"]) == (False, "entries")


def test_a_repair_tells_what_is_kept_and_lost_and_overwrites_nothing(damaged: Path) -> None:
    before = (damaged / "memory.db").read_bytes()
    done = run("repair", "memory.db", folder=damaged)
    assert (done.returncode, done.stderr) == (1, "")
    table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert table["entries"] == ["4", "1"]
    assert done.stdout.splitlines()[-1].startswith("memory.db.repaired: ")
    assert (damaged / "memory.db").read_bytes() == before
    assert run("check", "memory.db.repaired", folder=damaged).returncode == 0
    again = run("repair", "memory.db", folder=damaged)
    assert again.returncode == 1
    assert "exists already" in again.stderr
    told = json.loads(run("repair", "memory.db", "--to", "other.db", "--json", folder=damaged).stdout)
    assert (told["kept"]["entries"], told["lost"], len(told["lost_ids"]["entries"])) == (4, {"entries": 1}, 1)


@pytest.mark.parametrize("content", [b"", b"dear diary\n" * 999, b"SQLite format 3\x00" + bytes(9000)])
@pytest.mark.parametrize("command", ["check", "repair"])
def test_what_is_no_memory_is_told_without_a_traceback(tmp_path: Path, command: str, content: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(content)
    done = run(command, "memory.db", folder=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "next step: " in done.stdout + done.stderr
    missing = run(command, "missing.db", folder=tmp_path)
    assert missing.returncode == 1
    assert "no such file" in missing.stderr


def test_a_selftest_ends_with_its_figure(tmp_path: Path) -> None:
    done = run("selftest", "powercut", "--n", "3", folder=tmp_path)
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"powercut: ok: 3 power cuts, \d+ acknowledged writes to be found: 0 lost in 0 cuts, 0 partial", last
    )
    assert done.returncode == 0


def test_a_loss_is_exit_status_1(tmp_path: Path) -> None:
    """A program that loses: the same command, on a store that does not sync."""
    worse = (
        "import functools, sys\n"
        "from holdfast.cli import main\n"
        "from holdfast.testing.selftest import powercut\n"
        "powercut.powercut_test = functools.partial(powercut.powercut_test, synchronous='normal')\n"
        "sys.argv = ['holdfast', 'selftest', 'powercut', '--n', '30']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", worse], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("powercut: FAILED: 30 power cuts")
    assert done.stderr == ""


@pytest.mark.parametrize(
    "wrong",
    [["selftest", "crash", "--n", "x"], ["selftest", "crash", "--n", "0"], ["selftest", "nothing"], ["x"]],
)
def test_wrong_usage_is_exit_status_2(tmp_path: Path, wrong: list[str]) -> None:
    done = run(*wrong, folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage" in done.stderr


def test_an_error_is_a_cause_and_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run("selftest", "faults", "--n", "1", "--folder", "file/below", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    cause, step = done.stderr.splitlines()
    assert cause.startswith("error: ")
    assert "file/below" in cause
    assert step.startswith("next step: ")


def test_a_defect_is_told_in_words_and_in_full_when_asked(tmp_path: Path) -> None:
    broken = (
        "import sys\n"
        "from holdfast.cli import main\n"
        "from holdfast.testing.selftest import powercut\n"
        "powercut.powercut_test = None\n"
        "sys.argv = ['holdfast', 'selftest', 'powercut']\n"
        "main.main()\n"
    )
    command = [sys.executable, "-c", broken]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert "HOLDFAST_DEBUG" in done.stderr
    debugging = {**os.environ, "HOLDFAST_DEBUG": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=debugging, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def in_a_terminal(*arguments: str, folder: Path, **environment: str) -> str:
    """What somebody sees who looks."""
    ours, theirs = os.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder,
        env={**plain, "TERM": "xterm", **environment},
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # the end, on Linux
            while part := os.read(ours, 65_536):
                seen += part
        os.close(ours)
    assert process.returncode == 0
    return seen.decode()


def test_a_terminal_shows_progress_and_colours_unless_they_are_not_wanted(tmp_path: Path) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    shown = in_a_terminal("selftest", "powercut", "--n", "3", folder=tmp_path)
    assert "cutting" in shown
    assert "3/3" in shown
    assert colour.search(shown)
    plain = in_a_terminal("selftest", "powercut", "--n", "3", folder=tmp_path, NO_COLOR="1")
    assert "powercut: ok" in plain
    assert not colour.search(plain)


def test_a_pipe_gets_plain_text(tmp_path: Path) -> None:
    for arguments in (["--help"], ["x"]):
        done = run(*arguments, folder=tmp_path)
        assert "\x1b" not in done.stdout + done.stderr


def test_the_program_is_installed_under_its_name() -> None:
    program = Path(sys.executable).with_name("holdfast")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "selftest" in done.stdout
