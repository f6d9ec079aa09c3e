"""The root stays tidy, and the tools and their settings agree."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.architecture.tree import ROOT, declared_layers, existing_rooms, modules, tracked_files

ROOT_NAMES = frozenset(
    {
        ".ci",
        ".gitattributes",
        ".gitignore",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "NOTICE",
        "README.md",
        "SECURITY.md",
        "benchmarks",
        "docs",
        "examples",
        "packages",
        "pyproject.toml",
        "src",
        "tests",
        "tools",
    }
)
VAGUE = frozenset({"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"})


def test_root_holds_only_named_things() -> None:
    assert {name.split("/")[0] for name in tracked_files()} <= ROOT_NAMES


def test_no_module_has_a_vague_name() -> None:
    vague = [m.name for m in modules() if m.name.rpartition(".")[2].strip("_") in VAGUE]
    assert not vague


def test_every_room_is_declared() -> None:
    declared = {room for layer in declared_layers() for room in layer}
    assert existing_rooms() <= declared


def test_the_two_lists_of_rooms_agree() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    linted = [[room.strip(" ()") for room in layer.split("|")] for layer in layers]
    assert linted == declared_layers()


def test_the_tools_pass_their_own_tests() -> None:
    command = [sys.executable, "-B", "-m", "unittest", "test_tools"]
    done = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
