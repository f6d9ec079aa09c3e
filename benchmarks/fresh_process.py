"""What only a fresh process can tell: the time to import and to open, and the memory that an open file takes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.figures import WORK, Section, median
from benchmarks.files import BANK

HEAVY = ("pydantic", "numpy", "onnxruntime", "pydantic_ai", "fastapi", "apsw")

_RESIDENT = """
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024
"""
_BARE = _RESIDENT + "print(resident())"
_LOADED = (
    "import holdfast, json, sys; print(json.dumps([n for n in json.loads(sys.argv[1]) if n in sys.modules]))"
)
_OPEN = (
    _RESIDENT
    + """
import asyncio, json, sys, time
import holdfast

async def run(file, bank, key):
    started = time.perf_counter()
    import apsw
    driver = time.perf_counter()
    hf = await holdfast.open(file)
    opened = time.perf_counter()
    page = await (await hf.banks.get(bank)).load(key=key, limit=50)
    done = time.perf_counter()
    assert page.entries
    print(json.dumps([done - started, driver - started, opened - driver, done - opened, resident()]))
    await hf.aclose()

asyncio.run(run(*sys.argv[1:]))
"""
)


def _output(code: str, *arguments: str) -> str:
    """What a process prints. Its bytecode is kept, as that of an installed package is, wherever this one runs."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    surroundings["PYTHONPYCACHEPREFIX"] = str(WORK / "bytecode")
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=surroundings).stdout


def _cost(code: str) -> tuple[float, float]:
    """The seconds of a process, and those of the processor in it."""
    started, used = perf_counter(), _used()
    _output(code)
    return perf_counter() - started, _used() - used


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_import(found: Section, runs: int) -> None:
    """The whole time of a process that imports, less that of one that does nothing."""
    _output(_LOADED, "[]")
    pairs = [(_cost("pass"), _cost("import holdfast")) for _ in range(runs)]
    bare, bare_used = (median(column) for column in zip(*(one for one, _ in pairs), strict=True))
    whole, used = (median(column) for column in zip(*(one for _, one in pairs), strict=True))
    found.tell("bare Python", bare * 1e3, "ms")
    found.at_most("import holdfast, beyond that", (whole - bare) * 1e3, 60, "ms")
    found.tell("  in processor time", (used - bare_used) * 1e3, "ms")
    loaded: list[str] = json.loads(_output(_LOADED, json.dumps(HEAVY)))
    found.at_most("heavy modules that it loads", len(loaded), 0, "")
    if loaded:
        print(f"  loaded by import holdfast: {', '.join(loaded)}")


def measure_open(found: Section, file: Path, runs: int) -> None:
    """From ``holdfast.open`` to the first page read, with holdfast imported and the file in the memory of the OS."""
    key = "key-10000-0"
    _output(_OPEN, str(file), BANK, key)
    ran = [json.loads(_output(_OPEN, str(file), BANK, key)) for _ in range(runs)]
    whole, driver, opening, loading, memory = (median(column) for column in zip(*ran, strict=True))
    bare = median([float(_output(_BARE)) for _ in range(runs)])
    found.at_most("open and first load", whole * 1e3, 20, "ms")
    found.tell("  loading the driver (apsw)", driver * 1e3, "ms")
    found.tell("  holdfast.open", opening * 1e3, "ms")
    found.tell("  banks.get and bank.load", loading * 1e3, "ms")
    found.tell("memory of bare Python (RSS)", bare / 1e6, "MB")
    found.at_most("memory after open, beyond that (RSS)", (memory - bare) / 1e6, 60, "MB")
