"""Reordering models: a base ranker and what reorders its lists, in one file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Fields, Vector
from owpc_ltr.data.documents import fields_of
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.models.average import CrossValidated
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import (
    REORDERING,
    SavedRanker,
    checked_record,
    content_of,
    damage_named,
    load_scoring_model,
    model_matrix,
    model_of,
    read_content,
)
from owpc_ltr.protocols import Model, Reordering, Reranker
from owpc_ltr.signatures import Argument, public

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.partitioned import PartitionedDataset
    from owpc_ltr.data.runs import TrecRun

FEATURE = "feature:"


@dataclass(frozen=True, eq=False, repr=False)
class ReorderingModel(SavedRanker):
    """A base model and a reordering of its lists; without one, the base as it is.

    `reranker` names the plugin that learned the reordering, and loads it. `save_model` writes it.
    """

    kind: ClassVar[str] = REORDERING

    base: Model
    reranker: str
    reordering: Reordering | None
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that `rerank` expects, in order."""
        return self.base.feature_names

    @property
    def field_names(self) -> tuple[str, ...]:
        """The document fields that `rerank` needs besides the features."""
        return () if self.reordering is None else self.reordering.field_names

    def rerank(
        self, features: Any, offsets: NDArray[np.int64] | None = None, fields: Fields | None = None
    ) -> Vector:
        """Scores of the documents of one list, or of the lists that `offsets` cuts."""
        features = model_matrix(self.base, features)
        base_scores = self.base.score(features)
        if self.reordering is None:
            return base_scores
        return self.reordering.rerank(features, base_scores, offsets, fields)

    def rerank_dataset(self, data: RankingDataset) -> Vector:
        """Scores for all queries of a dataset, one a document."""
        return self.rerank(data.features, data.offsets, fields_of(data))

    def sizes(self) -> dict[str, object]:
        """The base, and whether its lists are reordered."""
        return {
            "base": self.base.kind,
            "reranker": self.reranker if self.reordering is not None else "none: the base as it is",
        }

    def as_dict(self) -> dict[str, Any]:
        """Base and reordering as JSON."""
        return {
            "base": content_of(self.base),
            "reranker": self.reranker,
            "reordering": None if self.reordering is None else self.reordering.as_dict(),
        }


@public
def load_model(
    path: Path | str, plugins: Annotated[Iterable[Path | str], Argument.LIST] = ()
) -> Model | ReorderingModel:
    """A model or a reordering from its file. Raises BadInput naming the file.

    `plugins` are the files of rerankers besides those installed.
    """
    path = Path(path)
    content = read_content(path)
    if content.get("kind") != REORDERING:
        return model_of(content, path)
    with damage_named(path):
        name, learned = str(content["reranker"]), content["reordering"]
        base = model_of(content["base"], path)
        record = checked_record(content)
    reordering: Reordering | None = None
    if learned is not None:
        from owpc_ltr.host.registry import load as load_plugins
        from owpc_ltr.host.settings import configure

        reranker: Reranker = configure(load_plugins(plugins).find("reranker", name), {})
        with damage_named(path):
            reordering = reranker.load(learned)
            if reordering.feature_names != base.feature_names:
                raise BadInput("its two parts read other features")
    return ReorderingModel(base, name, reordering, record)


def load_reordering(path: Path | str, plugins: Iterable[Path | str] = ()) -> ReorderingModel:
    """A reordering from its file. Raises BadInput for a model of single documents too."""
    ranker = load_model(path, plugins)
    if not isinstance(ranker, ReorderingModel):
        raise BadInput(f"{path} is not a reordering: upload it, and search with it")
    return ranker


def dataset_scores(
    ranker: Model | ReorderingModel | CrossValidated | TrecRun, data: RankingDataset
) -> Vector:
    """A ranker's scores of all documents of a dataset: list by list where it sees whole lists."""
    from owpc_ltr.data.runs import TrecRun

    if isinstance(ranker, TrecRun | CrossValidated):
        return ranker.score_dataset(data)
    if isinstance(ranker, ReorderingModel):
        return ranker.rerank_dataset(data)
    return ranker.score(data.features)


def read_base(text: str, data: RankingDataset) -> Model:
    """The base ranker that is meant: a model file, or `feature:NAME`, as the engine's score."""
    if text.startswith(FEATURE):
        return feature_ranker(text, data)
    return load_scoring_model(Path(text))


def feature_ranker(text: str, data: RankingDataset | PartitionedDataset) -> Model:
    """The ranker `feature:NAME`: one feature as it is, 0 where missing. UsageError if none."""
    from difflib import get_close_matches

    name = text.removeprefix(FEATURE)
    if name not in data.feature_names:
        within = [other for other in data.feature_names if name.lower() in other.lower()]
        close = within or get_close_matches(name, data.feature_names)
        names = ", ".join(f"'{other}'" for other in close or data.feature_names)
        what = "the nearest names are" if close else "the features are"
        raise UsageError(f"no feature is called '{name}'; {what} {names}")
    weights = np.array([float(own == name) for own in data.feature_names])
    return LinearModel(data.feature_names, weights, record={"base": text})
