"""The exact scan: int8 dot products over pages of vectors. Imports numpy, and is itself imported at first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from holdfast.model.entry import Quantised
from holdfast.stores.sqlite.db import Connection
from holdfast.stores.sqlite.guards import Verified

_PAGES: Final = (
    "select p.first, p.rows, p.chunks, p.hash, v.data, v.scales, v.hash from pages p"
    " left join vectors v on v.first=p.first where p.first between ? and ? order by p.first"
)
_TAIL: Final = "select row, vectors, scales, hash from tail where row between ? and ? and vectors is not null"
Numbers = npt.NDArray[np.floating]
EXACT_IN_FLOAT32: Final = 1_024
"""Up to so many dimensions every partial sum of int8 products is a whole number that a float32 holds exactly."""


def similarity(query: Quantised, vector: Quantised) -> float:
    """The dot product of two stored forms."""
    a = np.frombuffer(query.data, dtype=np.int8).astype(np.int64)
    b = np.frombuffer(vector.data, dtype=np.int8).astype(np.int64)
    return query.scale * vector.scale * float(a @ b)


def best_by_row(
    connection: Connection, bounds: Sequence[tuple[int, int]], query: Quantised, verified: Verified
) -> dict[int, float]:
    """For each row of the ranges that has vectors, the similarity of the best one."""
    size = len(query.data)
    kind: type[np.floating] = np.float32 if size <= EXACT_IN_FLOAT32 else np.float64
    wanted: Numbers = np.frombuffer(query.data, dtype=np.int8).astype(kind)
    found: dict[int, float] = {}
    for low, high in bounds:
        for first, rows, chunks, guard, data, scales, vectors_guard in connection.execute(
            _PAGES, (low, high)
        ):
            verified.page(connection, first, guard)
            if data is None and not any(cast("bytes", chunks)):
                continue
            verified.vectors(connection, first, vectors_guard)
            counts = np.frombuffer(cast("bytes", chunks), dtype=np.uint16)
            owners = np.repeat(np.frombuffer(cast("bytes", rows), dtype=np.int64), counts)
            _keep_best(
                found, owners, _products(cast("bytes", data), cast("bytes", scales), wanted, query.scale)
            )
        for row, data, scales, guard in connection.execute(_TAIL, (low, high)):
            verified.tail(connection, row, guard)
            values = _products(cast("bytes", data), cast("bytes", scales), wanted, query.scale)
            found[cast("int", row)] = float(values.max())
    return found


def _products(data: bytes, scales: bytes, wanted: Numbers, scale: float) -> npt.NDArray[np.float64]:
    matrix = np.frombuffer(data, dtype=np.int8).reshape(-1, wanted.size)
    sums: npt.NDArray[np.float64] = (matrix.astype(wanted.dtype) @ wanted).astype(np.float64)
    return sums * np.frombuffer(scales, dtype=np.float64) * scale


def _keep_best(
    found: dict[int, float], owners: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> None:
    for row, value in zip(owners.tolist(), values.tolist(), strict=True):
        if value > found.get(row, -np.inf):
            found[row] = value
