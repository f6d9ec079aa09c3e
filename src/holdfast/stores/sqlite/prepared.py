"""What can be worked out about a batch before it reaches the writer: bytes, texts and terms, but no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from holdfast.model.batch import Append, Batch, Revise
from holdfast.model.entry import Draft
from holdfast.model.origin import Origin
from holdfast.rules.words import index_terms
from holdfast.stores.sqlite.codec import (
    KIND_NUMBERS,
    metadata_column,
    origin_column,
    vector_columns,
    words_text,
)
from holdfast.stores.sqlite.db import Column

BRIEF_CHARACTERS: Final = 16_384
BRIEF_VECTORS: Final = 16_384


@dataclass(slots=True)
class Body:
    """The columns of an entry that do not depend on where and when it is stored, and its index forms.

    ``columns`` are kind, content, title, speaker, name, thread, subject, metadata, origin and created.
    """

    id: bytes
    columns: tuple[Column, ...]
    expires: int | None
    origin: Origin
    words: str
    length: int
    vectors: bytes | None
    scales: bytes | None
    dimensions: frozenset[int]

    @property
    def brief(self) -> bool:
        """Whether it takes no time to write."""
        text = cast("str", self.columns[1])
        return len(text) <= BRIEF_CHARACTERS and len(self.vectors or b"") <= BRIEF_VECTORS


Bodies: TypeAlias = dict[int, Body]
_NONE: frozenset[int] = frozenset()


def body_of(draft: Draft, origin: Origin) -> Body:
    """The stored forms of a draft."""
    found = draft.origin or origin
    terms = index_terms(draft.content, draft.title, draft.name)
    vectors, scales = vector_columns(draft.vectors)
    columns = (
        KIND_NUMBERS[draft.kind], draft.content, draft.title, draft.speaker, draft.name, draft.thread, draft.subject,
        metadata_column(draft.metadata), origin_column(found), draft.created_us,
    )  # fmt: skip
    sizes = frozenset([len(vector.data) for vector in draft.vectors]) if vectors else _NONE
    return Body(
        bytes.fromhex(draft.id), columns, draft.expires_us, found, words_text(terms), sum(terms.values()), vectors,
        scales, sizes,
    )  # fmt: skip


def bodies_of(batch: Batch) -> Bodies:
    """The bodies of a batch's entries by the position of their operation."""
    origin = batch.origin
    return {
        index: body_of(operation.draft, origin)
        for index, operation in enumerate(batch.operations)
        if isinstance(operation, (Append, Revise))
    }
