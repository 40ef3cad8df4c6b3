"""What feature values depend on must not change while they are logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr.errors import Refused
from owpc_ltr.features.feature_set import FeatureSet
from tests.engine.log_runs import (
    QUICK,
    Spoiler,
    assert_nothing_published,
    assert_only,
    log,
    replaced,
)
from tests.engine.memory_engine import (
    MemoryEngine,
    small_judgments,
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder / "movies.parquet"


def change_uuid(engine: MemoryEngine) -> None:
    engine.uuid = "uuid-2"


def change_mapping(engine: MemoryEngine) -> None:
    engine.mappings = {"properties": {"new": {"type": "text"}}}


def change_version(engine: MemoryEngine) -> None:
    engine.version = "3.9.0"


def edit_featureset(engine: MemoryEngine) -> None:
    features = list(engine.featureset.features)
    features[1] = replace(features[1], template={"match": {"body": "x"}})
    engine.featureset = FeatureSet("movies", tuple(features))


def reorder_featureset(engine: MemoryEngine) -> None:
    engine.featureset = FeatureSet("movies", engine.featureset.features[::-1])


DRIFTS = {
    "index made anew": (change_uuid, "the index 'movies': its uuid changed from uuid-1 to uuid-2"),
    "mapping": (change_mapping, "its mapping_hash changed"),
    "engine": (change_version, "the engine's version changed from 3.8.0 to 3.9.0"),
    "feature edited": (edit_featureset, "'body' of the feature set 'movies' changed"),
    "features reordered": (reorder_featureset, "the order of features of the feature set"),
}


@pytest.mark.parametrize("search", [1, 4, 6])
@pytest.mark.parametrize(("drift", "message"), DRIFTS.values(), ids=DRIFTS.keys())
def test_what_changes_while_features_are_logged_ends_the_run(
    out: Path, drift: Callable[[MemoryEngine], None], message: str, search: int
) -> None:
    engine = MemoryEngine()

    def change(answer: Any) -> Any:
        drift(engine)
        return answer

    engine.fault = Spoiler(change, start=search, times=1)
    with pytest.raises(Refused, match=message):
        log(engine, out, options=replace(QUICK, in_flight=1))
    assert_nothing_published(out, kept=search > 2)


@pytest.mark.parametrize(("drift", "message"), DRIFTS.values(), ids=DRIFTS.keys())
def test_what_changed_since_a_run_was_stopped_makes_it_another_job(
    out: Path, drift: Callable[[MemoryEngine], None], message: str
) -> None:
    stop_in_third_chunk(out)
    engine = MemoryEngine()
    drift(engine)
    with pytest.raises(Refused, match=r"half-done work of another job \(other "):
        log(engine, out)
    assert_nothing_published(out, kept=True)
    assert log(engine, out, options=replace(QUICK, restart=True)).resumed == 0, message
    assert_only(out)


def stop_in_third_chunk(out: Path) -> None:
    with pytest.raises(Refused):
        log(
            MemoryEngine(fault=Spoiler(replaced(None), start=5)),
            out,
            options=replace(QUICK, in_flight=1),
        )


def test_other_judgments_are_another_job(out: Path) -> None:
    stop_in_third_chunk(out)
    judgments = small_judgments()
    judgments.queries[0].grades[0] += 1
    with pytest.raises(Refused, match=r"another job \(other judgments\): .*--restart"):
        log(MemoryEngine(), out, judgments=judgments)
