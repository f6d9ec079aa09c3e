"""Measure the package and compare it with tools/budget.json.

Numbers that say the structure or the types are broken fail; the others are printed, to be looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent

GATES = (
    "imports.module_cycles",
    "imports.room_cycles",
    "code.annotation_coverage.functions",
    "code.any_per_1000_code",
    "code.ignores_per_1000_code",
    "code.broad_except_per_1000_code",
    "code.generic_raise",
    "code.prints",
)


def measure(package: Path, tests: Path) -> dict[str, Any]:
    """Run metrics.py, and return its document."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "metrics.json"
        command = [sys.executable, str(TOOLS / "metrics.py"), "measure", str(package), "--json", str(out)]
        if tests.is_dir():
            command += ["--tests", str(tests)]
        subprocess.run(command, check=True)
        document: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return document


def look_up(document: dict[str, Any], dotted: str) -> float | None:
    """Follow a dotted path; None when the number was not measured."""
    value: Any = document
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, (int, float)) else None


def miss(value: float | None, limits: dict[str, float]) -> str | None:
    """Say how a number leaves its limits, or None."""
    if value is None:
        return "was not measured"
    if "max" in limits and value > limits["max"]:
        return f"is {value}, over {limits['max']}"
    if "min" in limits and value < limits["min"]:
        return f"is {value}, under {limits['min']}"
    return None


def main() -> int:
    """Print every miss; fail when one of them is a gate."""
    budget: dict[str, dict[str, float]] = json.loads((TOOLS / "budget.json").read_text("utf-8"))
    document = measure(ROOT / "src" / "holdfast", ROOT / "tests")
    misses = {
        name: said for name, limits in budget.items() if (said := miss(look_up(document, name), limits))
    }
    failed = {name for name in misses if name.startswith(GATES)}
    for name, said in misses.items():
        print(f"{'FAILED' if name in failed else 'note  '} {name} {said}")
    print(f"{len(budget) - len(misses)} of {len(budget)} numbers are within the budget")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
