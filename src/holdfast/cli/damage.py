"""``holdfast check`` and ``holdfast repair``: what is wrong with a file, and a new file with all that is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.app import file_of
from holdfast.cli.console import say
from holdfast.cli.opening import File, Json
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.stores.sqlite.repair import RepairReport

To: TypeAlias = Annotated[Path | None, typer.Option("--to", help="The new file; FILE.repaired without it.")]


def check(file: File = None, *, as_json: Json = False) -> None:
    """Compare everything in a file with its guards, and what is derived with what it is made from."""
    # Deferred: what a command needs is loaded by that command.
    from holdfast.stores.sqlite.checking import check_file

    path = path_of(file)
    report = check_file(path)
    if as_json:
        findings = [{"where": one.where, "what": one.what, "hint": one.hint} for one in report.findings]
        say(
            json.dumps(
                {"file": str(path), "ok": report.ok, "examined": dict(report.examined), "findings": findings}
            )
        )
        raise typer.Exit(0 if report.ok else 1)
    for finding in report.findings:
        say(f"{finding.where}: {finding.what}", good=False)
    if report.findings:
        say(f"next step: {report.findings[0].hint}")
    rows = sum(report.examined.values())
    verdict = "ok" if report.ok else f"{len(report.findings)} findings"
    say(f"{path}: {verdict}: {rows} rows compared with their guards", good=report.ok)
    raise typer.Exit(0 if report.ok else 1)


def repair(file: File = None, *, to: To = None, as_json: Json = False) -> None:
    """Write all that is whole in a damaged file into a new one; the damaged file stays as it is."""
    # Deferred: as above.
    from holdfast.stores.sqlite.repair import repair_file

    path = path_of(file)
    report = repair_file(path, to or path.with_name(path.name + ".repaired"))
    if as_json:
        say(json.dumps(_as_object(path, report)))
        raise typer.Exit(0 if report.complete else 1)
    say(f"{'kind':20}{'kept':>10}{'lost':>10}")
    for kind in sorted({*report.kept, *report.lost}):
        kept, lost = report.kept.get(kind, 0), report.lost.get(kind, 0)
        if kept or lost:
            say(f"{kind:20}{kept:>10}{lost:>10}", good=None if not lost else False)
    for kind, ids in report.lost_ids.items():
        say(f"lost of {kind}: {', '.join(ids[:20])}{' and more' if len(ids) > 20 else ''}")
    for note in report.notes:
        say(note)
    if report.without_vectors:
        say(f"{report.without_vectors} entries keep their text and have lost their vectors")
    lost = sum(report.lost.values())
    say(f"{report.target}: {sum(report.kept.values())} records kept, {lost} lost", good=report.complete)
    raise typer.Exit(0 if report.complete else 1)


def _as_object(path: Path, report: RepairReport) -> dict[str, object]:
    return {
        "file": str(path), "target": str(report.target), "complete": report.complete, "kept": dict(report.kept),
        "lost": dict(report.lost), "lost_ids": {kind: list(ids) for kind, ids in report.lost_ids.items()},
        "without_vectors": report.without_vectors, "notes": list(report.notes),
    }  # fmt: skip


def path_of(file: str | None) -> Path:
    """The file that an argument names, as ``holdfast.open`` takes it; below the working folder as seen from there."""
    path, here = file_of(file), Path.cwd()
    if path is None:
        raise InvalidInput(
            "a memory without a file cannot be damaged",
            code="url_invalid",
            hint="give a path, or sqlite:///path",
        )
    return path.relative_to(here) if path.is_relative_to(here) else path
