"""``python -m benchmarks``: the machine, A, B and D; with ``--million`` C as well."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence

from benchmarks import chores, machine, many_callers, million, one_caller
from benchmarks.figures import WORK, Section, write_json
from benchmarks.files import machine_alone


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--million", action="store_true", help="measure at 1,000,000 entries too (C)")
    parser.add_argument("--only-million", action="store_true", help="measure C only")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast")
    return parser.parse_args(arguments)


def adding(*, quick: bool) -> list[Section]:
    """The machine, A, B and D."""
    rounds, most = (1, 1) if quick else (5, 12)
    found = [
        machine.settled(lambda: machine.measure(200 if quick else 2_000), 3),
        one_caller.measure(1_024 if quick else 2_048, rounds, most),
    ]
    count = 1_280 if quick else 6_400
    plans = many_callers.own_keys(count, seed=2), many_callers.random_keys(count, seed=3)
    found += [many_callers.measure(plan, rounds, most) for plan in plans]
    found.append(chores.measure(1_600 if quick else 8_000, rounds, most))
    return found


def main() -> int:
    chosen = parsed()
    found: list[Section] = []
    with machine_alone():
        if not chosen.only_million:
            found += adding(quick=chosen.quick)
        if chosen.million or chosen.only_million:
            found += million.measure(
                million.Sizes(20_000, 2_000, 400, 100) if chosen.quick else million.Sizes()
            )
    file = write_json(found, "million.json" if chosen.only_million else "figures.json")
    missed = [figure.name for section in found for figure in section.figures if figure.ok is False]
    print(f"\n{len(missed)} of {sum(f.ok is not None for s in found for f in s.figures)} targets missed")
    print(f"written to {file.relative_to(WORK.parent.parent)}; holdfast at {_version()}")
    return bool(missed)


def _version() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=WORK.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "an unknown commit"


if __name__ == "__main__":
    raise SystemExit(main())
