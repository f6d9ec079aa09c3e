"""What no line of the package may do."""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING

import pytest

from tests.architecture.tree import PACKAGE, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS_SQL = frozenset({"execute", "executemany", "executescript", "sql"})
UNSAFE_MODULES = frozenset({"pickle", "cPickle", "dill", "marshal", "shelve"})
UNSAFE_CALLS = frozenset({"eval", "exec", "__import__"})


def is_built(node: ast.expr) -> bool:
    """Whether a text is put together from parts that are not constants."""
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(left=left, right=right):
            return not (_is_constant(left) and _is_constant(right))
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace")):
            return True
        case _:
            return False


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.BinOp(left=left, right=right):
            return _is_constant(left) and _is_constant(right)
        case _:
            return False


def built_sql(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in RUNS_SQL:
                if is_built(first):
                    yield node
            case _:
                pass


def unsafe_uses(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(a.name.partition(".")[0] in UNSAFE_MODULES for a in names):
                yield node
            case ast.ImportFrom(module="marshal", names=[ast.alias(name="dumps")]):
                pass  # writing is harmless: the guards of rows are hashes of such bytes
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] in UNSAFE_MODULES:
                yield node
            case ast.Call(func=ast.Name(id=name)) if name in UNSAFE_CALLS:
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr="load" | "load_all")):
                yield node
            case _:
                pass


def test_no_sql_is_put_together_from_values() -> None:
    assert not [module.place(node) for module in modules() for node in built_sql(module.tree)]


def test_nothing_runs_or_unpickles_data() -> None:
    assert not [module.place(node) for module in modules() for node in unsafe_uses(module.tree)]


@pytest.mark.parametrize(
    "source",
    [
        "db.execute(f'select * from {table}')",
        "db.execute('select * from ' + table)",
        "db.execute('select * from %s' % table)",
        "db.executemany('select {}'.format(x), rows)",
        "await db.sql(f'{x}')",
    ],
)
def test_built_sql_is_found(source: str) -> None:
    assert len(list(built_sql(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    ["db.execute('select 1')", "db.execute('select ' + '1')", "db.execute(SELECT)", "db.execute(f'a')"],
)
def test_constant_sql_is_let_through(source: str) -> None:
    assert not list(built_sql(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from marshal import loads", "eval('1')", "yaml.load(x)", "import shelve as s"],
)
def test_unsafe_use_is_found(source: str) -> None:
    assert len(list(unsafe_uses(ast.parse(source)))) == 1


def reading_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that ruff RUF022 keeps."""
    if name.isupper() and len(name) > 1:
        return 0, name
    return (1 if name[0].isupper() else 2), name


@pytest.mark.skipif(not (PACKAGE / "__init__.py").exists(), reason="the package has no front yet")
def test_every_public_name_is_there_and_in_order() -> None:
    package = importlib.import_module("holdfast")
    names: list[str] = list(package.__all__)
    assert names == sorted(names, key=reading_order)
    assert len(names) == len(set(names))
    assert not [name for name in names if not hasattr(package, name)]
