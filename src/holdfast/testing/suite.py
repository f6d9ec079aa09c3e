"""The suite that every engine passes: all parts joined."""

from __future__ import annotations

from holdfast.testing.suite_chores import ChoreLaws, LeaseLaws
from holdfast.testing.suite_commit import CommitLaws, IdempotencyLaws, RequirementLaws
from holdfast.testing.suite_documents import DocumentLaws
from holdfast.testing.suite_entries import AppendLaws, VersionLaws
from holdfast.testing.suite_forget import CascadeLaws, ErasureLaws, SelectLaws
from holdfast.testing.suite_journal import JournalLaws, StepLaws
from holdfast.testing.suite_keeping import KeepingLaws
from holdfast.testing.suite_load import FindLaws, LoadLaws, PastLaws
from holdfast.testing.suite_running import BoundaryLaws, RunningLaws, ValueLaws
from holdfast.testing.suite_search import RowLaws, VectorLaws, WordLaws


class StoreSuite(
    CommitLaws, RequirementLaws, IdempotencyLaws,
    AppendLaws, VersionLaws,
    LoadLaws, FindLaws, PastLaws,
    DocumentLaws,
    WordLaws, VectorLaws, RowLaws,
    StepLaws, JournalLaws,
    ChoreLaws, LeaseLaws,
    SelectLaws, CascadeLaws, ErasureLaws,
    BoundaryLaws, ValueLaws, RunningLaws, KeepingLaws,
):  # fmt: skip
    """What every engine keeps to, as tests: a subclass gives the fixture ``store``, which may ask for ``clock``.

    ::

        class TestMyStore(StoreSuite):
            @pytest.fixture
            async def store(self, clock: ManualClock) -> AsyncIterator[Store]:
                store = await MyStore.open(clock=clock)
                yield store
                await store.aclose()

    The tests are coroutines; pytest-asyncio runs them in its ``auto`` mode.
    """
