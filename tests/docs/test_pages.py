"""Every example in the README and in docs/ runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import PageError, read_blocks, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    run_page(page.read_text("utf-8"), str(page.relative_to(ROOT)))


def test_blocks_share_names_and_may_await() -> None:
    page = """
```python
import asyncio
x = 1
```
text
```python
await asyncio.sleep(0)
loop = asyncio.get_running_loop()
x += 1
```
```python
async with asyncio.timeout(5):
    same = asyncio.get_running_loop() is loop
    y = [x async for _ in numbers()] if False else x
```
"""
    names = run_page(page, "page.md")
    assert (names["x"], names["y"], names["same"]) == (2, 2, True)


def test_only_python_blocks_without_a_marker_run() -> None:
    page = """
```text
not python
```
<!-- no-run: needs a server -->

```python
raise SystemExit
```
```python
ran = True
```
"""
    assert run_page(page, "page.md")["ran"]
    assert [block.runs for block in read_blocks(page)] == [False, True]


def test_indented_blocks_are_dedented_and_shown_fences_are_not_run() -> None:
    page = "- item\n  ```python\n  z = 3\n  ```\n\n````text\n```python\nraise SystemExit\n```\n````\n"
    assert run_page(page, "page.md")["z"] == 3


def test_a_failure_names_the_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("# Title\n\n```python\nx = 1\n1 / 0\n```\n", "page.md")
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno) == ("page.md", 4)


@pytest.mark.parametrize("page", ["```python\nx = 1\n", "<!-- no-run: -->\n```python\n```\n"])
def test_an_unreadable_page_is_refused(page: str) -> None:
    with pytest.raises(PageError):
        list(read_blocks(page))
