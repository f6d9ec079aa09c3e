"""When two entries say the same, and when two requests are the same request."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from hashlib import blake2b

from holdfast.model.entry import Draft
from holdfast.model.values import canonical_json


def same_text_digest(content: str) -> bytes:
    """Equal for texts that differ only in Unicode form and white space: what ``dedupe="exact"`` compares."""
    if not content.isascii():
        content = unicodedata.normalize("NFC", content)
    return blake2b(" ".join(content.split()).encode(), digest_size=16).digest()


def request_digest(draft: Draft) -> bytes:
    """What an idempotency key stands for: content, speaker and metadata."""
    return _digest([draft.content, draft.speaker, draft.metadata])


def requests_digest(drafts: Iterable[tuple[str, Draft]]) -> bytes:
    """The same for many entries, each with its key."""
    return _digest([[key, draft.content, draft.speaker, draft.metadata] for key, draft in drafts])


def _digest(request: object) -> bytes:
    return blake2b(canonical_json(request).encode(), digest_size=16).digest()
