"""A hundred thousand damaged model files: each is refused in one line, or is a model that scores.

They go through what `import` and `evaluate` read them by, all in one process whose memory is
bounded.
"""

from __future__ import annotations

import json
import random
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.ltr_plugin import emulate
from owpc_ltr.formats.model_reader import Columns, import_with
from owpc_ltr.formats.stored_model import XGBOOST, StoredModel
from owpc_ltr.formats.xgboost_json import to_dump
from owpc_ltr.models.combined import ReorderingModel, load_model
from owpc_ltr.models.model_file import FORMAT, content_of, model_of
from owpc_ltr.models.trees import DEEPEST, HIGHEST, LARGEST, TreeModel
from owpc_ltr.text import printable
from tests.faults.damaged_models import ENGINE, NAMES, damaged, sound_files
from tests.faults.seeds import Seeds

ROOM = 2 << 30
"""Bytes that the whole may take beyond what the process has at its start."""
ROWS = np.array([[0, 1, 2], [-1, 0.5, np.nan], [np.nan] * 3, [1e30, -1e30, 0]], np.float32)


@pytest.fixture
def bounded() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no such figures here")
@pytest.mark.faults
def test_every_damaged_model_file_is_refused_or_sound(
    seeds: Seeds, tmp_path: Path, bounded: None
) -> None:
    files = sound_files()
    path = tmp_path / "model"
    for kind, content in files.items():
        path.write_bytes(content)
        readers = list(_read(path))
        # XGBoost's binary form is refused in words of its own.
        assert all(isinstance(got, OwpcLtrError) for got in readers) == (kind == "xgboost binary")
    counted: Counter[str] = Counter()
    for seed in seeds(sample=1_000, whole=100_000):
        kind = list(files)[seed % len(files)]
        path.write_bytes(damaged(files[kind], random.Random(seed)))  # noqa: S311
        for got in _read(path):
            if isinstance(got, OwpcLtrError):
                text = printable(str(got))
                assert type(got) is BadInput or "reranker" in text
                assert text.isprintable()
                assert len(text) < 700 + len(str(path))
                counted["refused"] += 1
            else:
                check_sound(got, path)
                counted[f"taken: {kind}"] += 1
    print(dict(counted))
    assert counted.total() == 0 or counted["refused"] > counted.total() / 4


def _read(path: Path) -> Iterator[Any]:
    """What `import` and `evaluate` make of a file: a model, or the error that they tell."""
    for read in (_imported, load_model):
        try:
            yield read(path)
        except OwpcLtrError as error:
            yield error


def _imported(path: Path) -> Any:
    return import_with(path, Columns(NAMES))


def check_sound(ranker: Any, path: Path) -> None:
    """It scores, its own file says the same, and no bound is passed."""
    rows = np.resize(ROWS, (len(ROWS), len(ranker.feature_names)))
    try:
        scores = scored(ranker, rows)
    except OwpcLtrError:
        # It may ask for fields of documents that these rows have not.
        assert isinstance(ranker, ReorderingModel)
        return
    assert np.isfinite(scores).all()
    assert all(isinstance(name, str) for name in ranker.feature_names)
    if isinstance(ranker, TreeModel):
        check_bounds(ranker)
        check_served(ranker, rows, scores)
    content = json.loads(json.dumps({"format": FORMAT, **content_of(ranker)}, allow_nan=False))
    if isinstance(ranker, ReorderingModel):
        path.write_text(json.dumps(content))
        again: Any = load_model(path)
    else:
        again = model_of(content, path)
    assert (scored(again, rows) == scores).all()
    assert content_of(again) == content_of(ranker)


def check_served(model: TreeModel, rows: Any, scores: Any) -> None:
    """An engine that is given the model scores as it does, where it scores at all."""
    features = tuple(Feature(name, (), {}) for name in model.feature_names)
    definition = to_dump(model, model.feature_names, ENGINE)
    stored = StoredModel("m", XGBOOST, definition, FeatureSet("f", features))
    served = emulate(stored, rows, ENGINE)
    tolerance = 1e-5 * max(1.0, abs(model.base), float(np.abs(model.forest.value).max()))
    if np.isfinite(served).all():
        assert np.abs(served - scores).max() <= tolerance
    else:
        assert tolerance > 1e30


def scored(ranker: Any, rows: Any) -> Any:
    return ranker.rerank(rows) if isinstance(ranker, ReorderingModel) else ranker.score(rows)


def check_bounds(model: TreeModel) -> None:
    forest = model.forest
    assert len(forest.feature) <= LARGEST
    assert (np.abs(forest.value) <= HIGHEST).all()
    depth = np.zeros(len(forest.feature), dtype=int)
    for node in np.flatnonzero(~forest.is_leaf):
        left = forest.left[node]
        assert node < left < len(depth) - 1
        depth[left : left + 2] = depth[node] + 1
    assert depth.max() <= DEEPEST
