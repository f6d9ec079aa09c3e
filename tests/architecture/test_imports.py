"""Who may import what, and that importing does nothing."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.tree import CORE_ROOMS, PACKAGE, modules, room_of, run_isolated

if TYPE_CHECKING:
    from pathlib import Path

ADAPTERS = frozenset({"stores", "providers"})
MAY_KNOW_ADAPTERS = frozenset({"app", "testing", "cli"})
# The one stored form of vectors is a rule, and arithmetic over arrays; it is imported with the first vector.
EXEMPT = {("holdfast.rules.quantise", "numpy"), ("holdfast.rules.quantise", "numpy.typing")}
HEAVY = ("pydantic", "numpy", "onnxruntime", "pydantic_ai", "fastapi", "apsw", "typer", "click", "rich")

# Imports each module named on the command line, and reports what the package's own code did meanwhile.
# An event is laid to the innermost frame that does not belong to the standard library.
IMPORT_ALL = r"""
import importlib, json, logging, os, sys, threading

STANDARD = sys.stdlib_module_names
WATCHED = {"socket.__new__", "subprocess.Popen", "os.system", "os.mkdir", "os.rename", "os.remove",
           "sqlite3.connect", "os.putenv"}
effects, skipped, working = [], [], None

def ours(frame):
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        top = name.partition(".")[0]
        if top == "holdfast":
            return True
        if top not in STANDARD and name != "__main__":
            return False
        frame = frame.f_back
    return False

def writes(mode, flags):
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

def watch(event, arguments):
    if event in WATCHED or (event == "open" and writes(arguments[1], arguments[2])):
        if ours(sys._getframe(1)):
            effects.append(f"{working}: {event} {arguments[:1]!r}")

def tell(cls, name):
    original = getattr(cls, name)
    def changed(self, *arguments, **named):
        quiet = name == "addHandler" and isinstance(arguments[0], logging.NullHandler)
        if not quiet and ours(sys._getframe(1)):
            effects.append(f"{working}: logging {name} {self!r}")
        return original(self, *arguments, **named)
    setattr(cls, name, changed)

def start(self, original=threading.Thread.start):
    if ours(sys._getframe(1)):
        effects.append(f"{working}: thread {self!r}")
    original(self)

threading.Thread.start = start
for name in ("setLevel", "addHandler", "removeHandler", "addFilter"):
    tell(logging.Logger, name)
root_before = (logging.root.level, list(logging.root.handlers), logging.root.manager.disable)
sys.addaudithook(watch)
for working in sys.argv[1:]:
    try:
        importlib.import_module(working)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("holdfast", ""):
            raise
        skipped.append(working)
if (logging.root.level, list(logging.root.handlers), logging.root.manager.disable) != root_before:
    effects.append("the root logger changed")
effects += [f"file {name}" for name in os.listdir()]
print(json.dumps({"effects": effects, "skipped": skipped}))
"""


def test_importing_every_module_does_nothing(tmp_path: Path) -> None:
    names = [module.name for module in modules() if not module.name.endswith("__main__")]
    report = json.loads(run_isolated(IMPORT_ALL, tmp_path, *names))
    assert report["effects"] == []


@pytest.mark.skipif(not (PACKAGE / "__init__.py").exists(), reason="the package has no front yet")
def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    source = f"import holdfast, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run_isolated(source, tmp_path).strip() == "[]"


def test_the_core_needs_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"holdfast"}
    outside = [
        f"{module.place(node)} imports {name}"
        for module in modules()
        if module.room in CORE_ROOMS
        for node, name in module.imports()
        if name.partition(".")[0] not in allowed and (module.name, name) not in EXEMPT
    ]
    assert not outside


def test_only_three_rooms_know_the_adapters() -> None:
    strangers = [
        f"{module.place(node)} imports {name}"
        for module in modules()
        if module.room not in MAY_KNOW_ADAPTERS
        for node, name in module.imports()
        if (room := room_of(name)) in ADAPTERS and room != module.room
    ]
    assert not strangers


def test_only_agent_imports_the_agents_of_pydantic_ai() -> None:
    """`providers` adapts its models, and sees nothing else of it."""
    strangers = [
        f"{module.place(node)} imports {name}"
        for module in modules()
        if module.room != "agent"
        for node, name in module.imports()
        if name.partition(".")[0] == "pydantic_ai" and not _is_model_of_a_provider(module.room, name)
    ]
    assert not strangers


def _is_model_of_a_provider(room: str, name: str) -> bool:
    parts = name.split(".")
    return room == "providers" and len(parts) > 1 and parts[1] in {"messages", "models", "settings", "direct"}
