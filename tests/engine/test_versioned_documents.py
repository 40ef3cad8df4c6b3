"""Documents in the cluster: a write that was said to have failed never happens later."""

from __future__ import annotations

from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed
from owpc_ltr.engine.versioned_documents import INDEX, Changed, Unsettled, VersionedDocuments
from owpc_ltr.errors import EngineUnavailable
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import Unreliable
from tests.engine.test_write_faults import KINDS, Faulty


def documents(engine: Any) -> VersionedDocuments:
    return VersionedDocuments(
        cast("Engine", engine), "the note", "note/", named="note", look="look at {}"
    )


def stored(cluster: MemoryCluster) -> Any:
    document = documents(cluster).read("a")
    return document and document.content["text"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [None, "old"])
def test_after_a_fault_a_document_is_what_was_said(before: str | None, kind: str) -> None:
    cluster = MemoryCluster()
    if before:
        documents(cluster).put("a", {"text": before})
    # The index is made by the first write.
    faulty = Faulty(cluster, {2: kind})
    mine = documents(faulty)
    try:
        mine.replace("a", {"text": "new"}, mine.read("a"))
        said: set[str | None] = {"new"}
    except Unsettled:
        said = {before, "new"}
    except EngineUnavailable:
        said = {before}
    faulty.arrive(10**9)
    assert stored(cluster) in said
    if kind == "lost":
        assert said == {"new"}


def test_what_another_process_wrote_in_between_stays() -> None:
    cluster = MemoryCluster()
    mine = documents(cluster)
    mine.put("a", {"text": "theirs"})
    with pytest.raises(Changed, match="another process changed the note 'a' at the same time"):
        mine.replace("a", {"text": "mine"}, None)
    assert stored(cluster) == "theirs"
    read = mine.read("a")
    mine.put("a", {"text": "newer"})
    for act in (lambda: mine.replace("a", {"text": "mine"}, read), lambda: mine.delete("a", read)):
        with pytest.raises(Changed, match="look at a, and try again"):
            act()
    assert stored(cluster) == "newer"
    assert mine.delete("a", mine.read("a"))
    assert not mine.delete("a")


@pytest.mark.parametrize(
    "fault",
    [NotAllowed("no right"), EngineRefusal("it", 403, "cluster_block_exception", "read-only")],
)
def test_a_refusal_is_told_as_it_is_though_the_content_is_the_same(
    fault: NotAllowed | EngineRefusal,
) -> None:
    cluster = MemoryCluster()
    documents(cluster).put("a", {"text": "same"})
    refusing = Unreliable(cast("Engine", cluster), 3, lambda: fault, again=False)
    mine = documents(refusing)
    with pytest.raises(type(fault), match=r"no right|read-only"):
        mine.replace("a", {"text": "same"}, mine.read("a"))


def test_names_are_found_by_kind_and_by_field() -> None:
    cluster = MemoryCluster()
    mine = documents(cluster)
    assert mine.present(["a"]) == set()
    assert mine.with_field("text") == []
    mine.put("a", {"text": "x"})
    VersionedDocuments(cast("Engine", cluster), "alias").put("b", {"text": "y"})
    assert mine.present(["a", "b"]) == {"a"}
    assert sorted(each["text"] for each in mine.with_field("text")) == ["x", "y"]
    assert set(cluster.indices[INDEX].documents) == {"note/a", "b"}
