"""A short story with a real memory: told, searched, corrected, looked back at, undone, and erased for good."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

import holdfast


async def story(file: Path) -> None:
    async with holdfast.open(file) as hf:
        space = hf.space("acme")
        bank = await space.banks.create("support", kind="general")

        tell("1. Remember")
        drink = await bank.add("Alice prefers green tea in the morning", key="alice", title="drinks")
        await bank.add(
            "Alice deploys the shop to fly.io every Friday", key="alice", metadata={"topic": "ops"}
        )
        await bank.add("Bob never drinks tea", key="bob")
        again = await bank.add("Alice prefers  green tea in the morning", key="alice")
        say(f"three facts kept; saying one twice keeps it once (duplicate={again.duplicate})")

        tell("2. Search, and see why")
        for hit in await bank.search("which tea does Alice like?", key="alice"):
            say(f"{hit.entry.content!r}  score {hit.score:.2f} = {hit.why}")
        say(f"about the moon: {len(await bank.search('moon landing', key='alice'))} hits")

        tell("3. Correct, and keep the past")
        before = drink.updated_at + timedelta(microseconds=1)
        corrected = await bank.update(drink.id, content="Alice prefers coffee now")
        say(f"now:    {(await bank.get(drink.id)).content!r} (version {corrected.version})")
        say(f"before: {(await bank.get(drink.id, as_of=before)).content!r}")

        tell("4. Undo")
        undo = await space.undo(corrected.change)
        say(f"back to {(await bank.get(drink.id)).content!r}, itself a change: {undo.id[:12]}…")
        await space.undo(undo.id)
        say(f"and an undo can be undone: {(await bank.get(drink.id)).content!r}")
        try:
            await space.undo(drink.change)
        except holdfast.UndoConflict as conflict:
            say(f"an older change waits for those that build on it: {len(conflict.dependents)} of them")

        tell("5. Forget, with a receipt")
        receipt = await space.forget(subject="alice", reason="she asked")
        counts = ", ".join(f"{count} {what}" for what, count in receipt.counts.items() if count)
        say(f"erased {counts}; receipt {receipt.id[:12]}…, complete={receipt.complete}")
        found = await hf.store.residue([b"green tea in the morning", b"fly.io"])
        say(f"traces of her words in the raw files: {sum(found.values())}")
        say(f"Bob is still there: {[hit.entry.content for hit in await bank.search('tea')]}")


def tell(title: str) -> None:
    print(f"\n{title}")


def say(line: str) -> None:
    print(f"   {line}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder, "memory.db")))
