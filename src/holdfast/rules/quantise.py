"""The one stored form of a vector: int8 components and a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from holdfast.errors import InvalidInput
from holdfast.model.entry import Quantised


def quantise(vector: Sequence[float]) -> Quantised:
    """Scale a vector to unit length and round it to int8; the zero vector stays zero."""
    values = np.array(vector, dtype=np.float64)  # a copy, which is scaled in place
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput("a vector is a flat sequence of numbers", code="vector_invalid")
    length = math.sqrt(values.dot(values))
    if not math.isfinite(length):
        raise InvalidInput("a vector holds a number that is not finite", code="vector_invalid")
    if length == 0.0:
        return Quantised(bytes(values.size), 0.0)
    peak = float(np.maximum.reduce(np.abs(values)))
    values *= 127.0 / peak
    data = np.rint(values, values).astype(np.int8).tobytes()
    # A float32 holds the scale in every engine: rounding it here keeps scores equal everywhere.
    return Quantised(data, float(np.float32(peak / (127.0 * length))))
