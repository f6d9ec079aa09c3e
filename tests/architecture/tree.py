"""What the tests of this folder look at: the repository, and every module of the package as a syntax tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"
ROOMS_FILE = ROOT / "tools" / "rooms.txt"
CORE_ROOMS = frozenset({"errors", "model", "ports", "rules"})


def room_of(name: str) -> str:
    """The name directly below the package; empty for the package itself and for everything outside."""
    top, _, rest = name.partition(".")
    return rest.partition(".")[0] if top == "holdfast" else ""


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return room_of(self.name)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def place(self, node: ast.AST) -> str:
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"

    def imports(self) -> Iterator[tuple[ast.stmt, str]]:
        """Every imported name in full, wherever the import stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node, alias.name
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                for alias in node.names:
                    yield node, f"{base}.{alias.name}"

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, node.module] if node.module else parts)


@cache
def modules() -> tuple[Module, ...]:
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")))


def _read(path: Path) -> Module:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, ast.parse(path.read_text("utf-8"), str(path)))


def existing_rooms() -> set[str]:
    return {module.room for module in modules()} - {""}


def declared_layers() -> list[list[str]]:
    lines = (line.split("#")[0].split() for line in ROOMS_FILE.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def tracked_files() -> list[str]:
    """What git keeps; a copy without a repository has nothing to judge."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def run_isolated(source: str, folder: Path, *arguments: str) -> str:
    """Run Python with an empty environment in an empty folder, and return what it prints."""
    here = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    done = subprocess.run(
        [sys.executable, "-B", "-c", here + source, *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
