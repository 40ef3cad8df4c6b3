"""Judged queries, read by their content, and checks of their judgments.

Data are a dataset, a folder of parts, or judgments. In production a model ranks what a query
retrieves. Judgments of other documents (answers that the query never retrieves, negatives from
another source) teach it to tell these apart, and held-out judgments of the same kind do not show
the error: `judgment_warnings` checks the judged documents and their features for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset, numbers_in
from owpc_ltr.data.datasets import dataset_of, open_or_read
from owpc_ltr.data.external_features.sources import external_names, sources_in
from owpc_ltr.data.judgments.grouping import (
    JUDGED_BY,
    Judgments,
    UsedWeights,
    importance_of,
    judges_column,
    judges_of,
    weights_of,
)
from owpc_ltr.data.parquet import DATASET_KEY
from owpc_ltr.data.partitioned import PartitionedDataset
from owpc_ltr.data.runs import TrecRun, is_run
from owpc_ltr.data.splits import query_text
from owpc_ltr.errors import BadInput, UsageError, give_warnings
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.files.columnar import PARQUET
from owpc_ltr.files.input import first_lines, open_regular, read_head
from owpc_ltr.host.judgment_lists import read_judgments

Dataset = RankingDataset | PartitionedDataset
Data = Dataset | Judgments
_FEATURES = re.compile(r"\s*[-+.\deE]+\s+qid:\S+\s+\d+:")
"""How a line of LETOR text begins."""
UNUSED = "metrics do not weigh documents: the weights of judgments count in training alone"
_FEWEST_QUERIES = 20
FEWEST_PAIRS = 1_000
_MOST_DOCUMENTS = 10_000
_MANY = 0.5
_SEPARATED = 0.98
_OF_A_TABLE = 0.9
_SEED = 0


def read_data(
    path: Path | str,
    *,
    topics: Mapping[str, str] | Path | str | None = None,
    asked: bool = False,
    memory: int | str | None = None,
    max_feature_number: int | None = None,
) -> Data:
    """The data in a file or folder: with features where it has some, else judgments.

    `topics` has the texts of the queries of a judgment list, which are needed where they will be
    `asked` of an engine. Raises BadInput.
    """
    if Path(path).is_dir() or _has_features(Path(path)):
        return open_or_read(path, memory=memory, max_feature_number=max_feature_number)
    judgments = _judgments(path, topics, asked)
    give_warnings(judgments.notes)
    return judgments


def read_lists(
    columns: Mapping[str, str] | None,
    *sources: Any,
    topics: Mapping[str, str] | Path | str | None = None,
    asked: bool = False,
) -> tuple[Any, ...]:
    """The sources, their judgment lists read where they have the columns of these roles.

    A list that has other columns, beside one that has these, is left to be read by its own. Raises
    BadInput, or UsageError, where no list has them.
    """
    if not columns:
        return sources
    read = list(sources)
    fault: Exception | None = None
    for number, source in enumerate(sources):
        listed = isinstance(source, Path | str) and not Path(source).is_dir()
        if listed and not _has_features(Path(source)):
            try:
                read[number] = _judgments(source, topics, asked, columns)
            except BadInput as error:
                fault = fault or error
            else:
                give_warnings(read[number].notes)
    if all(before is after for before, after in zip(sources, read, strict=True)):
        raise fault or UsageError(
            "`columns` names columns of a judgment list, and there is none: leave it out"
        )
    return tuple(read)


def without_features(judgments: Judgments) -> RankingDataset:
    """A judgment list as a dataset that has no feature: what runs are measured on."""
    queries = judgments.queries
    weighed = UsedWeights.among(queries)
    sizes = [len(query.doc_ids) for query in queries]
    judges = judges_of(queries)
    labels = [np.asarray(query.grades, np.float32) for query in queries]
    return RankingDataset(
        features=np.empty((sum(sizes), 0), np.float32),
        labels=np.concatenate(labels),
        offsets=np.append(0, np.cumsum(sizes)).astype(np.int64),
        query_ids=pa.array([query.query_id for query in queries], pa.string()),
        feature_names=(),
        doc_ids=pa.array([name for query in queries for name in query.doc_ids]),
        query_params=pa.array([json.dumps(query.params) for query in queries], pa.string()),
        query_weights=(
            np.array([importance_of(query) for query in queries]) if weighed.queries else None
        ),
        document_weights=(
            np.concatenate([weights_of(query) for query in queries]) if weighed.documents else None
        ),
        document_fields={JUDGED_BY: judges_column(queries)} if judges else None,
        manifest={"judgments": judges} if judges else None,
    )


def as_dataset(data: Data) -> Dataset:
    """The dataset; of a judgment list one without features."""
    return without_features(data) if isinstance(data, Judgments) else data


def judged_dataset(
    rankers: Iterable[object],
    data: Data | Path | str | Sequence[Data | Path | str],
    columns: Mapping[str, str] | None = None,
    *,
    memory: int | str | None = None,
    max_feature_number: int | None = None,
) -> Dataset:
    """The dataset that is passed, or read; a file of judgments where one of the rankers is a run.

    `columns` are those of the judgments, by role.
    """
    (data,) = read_lists(columns, data)
    read = read_data if any(map(_is_run, rankers)) else open_or_read
    if isinstance(data, Path | str):
        data = read(data, memory=memory, max_feature_number=max_feature_number)
    judged = dataset_of(data)
    if isinstance(judged, list | tuple):
        raise UsageError(
            "one dataset is measured on: read several files as one by read_dataset; test data of "
            "folds are compared on by compare"
        )
    return as_dataset(judged)


def _is_run(ranker: object) -> bool:
    """Whether a ranker is a TREC run, or the file of one."""
    return isinstance(ranker, TrecRun) or (isinstance(ranker, Path | str) and is_run(Path(ranker)))


def texts_of(data: RankingDataset) -> pa.StringArray | None:
    """What users typed, query by query; None where the data do not know."""
    if data.query_params is None:
        return None
    texts = [query_text(json.loads(params)) for params in data.query_params.to_pylist()]
    typed = pa.array(texts, pa.string())
    return None if not any(texts) or typed.equals(data.query_ids) else typed


def judgment_warnings(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> list[ResultWarning]:
    """What looks harmful in a dataset's judgments; few queries are not checked.

    `text_features` are the columns that tell how well a document matches the query's words. Where
    they are not known, it is every column that is not the same for a document whatever the query.
    Of a large dataset a sample of the queries is looked at.
    """
    sample = _sampled(data)
    if sample.n_queries < _FEWEST_QUERIES or not sample.n_features:
        return []
    pairs = _MixedQueries(sample)
    columns = _text_columns(sample, text_features)
    named = text_features is not None
    return [
        *_found_by_nothing(sample, columns, named),
        *_worse_than_random(sample, pairs, columns, named),
        *_from_other_sources(sample, pairs),
        *_of_the_same_clicks(sample, pairs),
        *_sampled_alike(pairs),
    ]


def shares_right(data: RankingDataset) -> NDArray[np.float64]:
    """By column, the share of pairs (relevant, irrelevant) that it alone has in the right order.

    NaN where no query has both. Of a large dataset a sample of the queries is looked at.
    """
    sample = _sampled(data)
    pairs = _MixedQueries(sample)
    if not pairs.mixed.any():
        return np.full(data.n_features, np.nan)
    return np.array([pairs.right(sample.features[:, c]) for c in range(data.n_features)])


def unused_weights(data: RankingDataset | PartitionedDataset) -> list[str]:
    """A sentence where documents have weights other than 1."""
    weighed = "document_weights" in data.columns and any(data.each(_weighed))
    return [UNUSED] if weighed else []


def _judgments(
    path: Path | str,
    topics: Mapping[str, str] | Path | str | None,
    asked: bool,
    columns: Mapping[str, str] | None = None,
) -> Judgments:
    try:
        return read_judgments(path, topics=topics, columns=columns)
    except BadInput:
        if asked or topics is not None:
            raise
        # Runs are measured without the queries' texts, which qrels lack.
        return read_judgments(path, topics=_Ids(), columns=columns)


class _Ids(dict[str, str]):
    """Queries by id, each with its id for a text."""

    def get(self, query: str, _default: object = None) -> str:
        return query


def _has_features(path: Path) -> bool:
    """Whether a file is a dataset: our Parquet, or LETOR text; what is neither is a list."""
    with open_regular(path) as file:
        if file.read(len(PARQUET)) == PARQUET:
            file.seek(0)
            try:
                return DATASET_KEY in (pq.read_schema(file).metadata or {})
            except (pa.ArrowInvalid, OSError):
                # What is damaged is told by who reads it.
                return True
    lines = (line for line in first_lines(read_head(path)) if not line.startswith("#"))
    return bool(_FEATURES.match(next(lines, "")))


class _MixedQueries:
    """The pairs of a relevant and an irrelevant document of a query; `mixed` queries have some.

    `query` and `relevant` are per document, `number` is that of the pairs.
    """

    def __init__(self, data: RankingDataset) -> None:
        sizes = np.diff(data.offsets)
        self.query = np.repeat(np.arange(data.n_queries), sizes)
        self.relevant = data.labels > 0
        self.n_relevant = np.bincount(self.query, self.relevant, data.n_queries).astype(np.int64)
        self.n_irrelevant = sizes - self.n_relevant

        self.mixed = (self.n_relevant > 0) & (self.n_irrelevant > 0)
        self.number = int((self.n_relevant * self.n_irrelevant).sum())

    @property
    def are_enough(self) -> bool:
        """Whether there are enough queries, and pairs, to tell how they come about."""
        return self.number >= FEWEST_PAIRS and int(self.mixed.sum()) >= _FEWEST_QUERIES

    def right(self, values: NDArray[Any]) -> float:
        """The mean over queries of the share of pairs in which the relevant one is above.

        Ties count half, and a missing value stands below all others.
        """
        values = np.where(np.isnan(values), -np.inf, values)
        order = np.lexsort((values, self.query))
        query, ordered, relevant = self.query[order], values[order], self.relevant[order]
        new = np.append(True, (query[1:] != query[:-1]) | (ordered[1:] != ordered[:-1]))
        run = np.cumsum(new) - 1
        irrelevant = np.bincount(run, ~relevant)
        below = np.cumsum(irrelevant) - irrelevant
        first_run = run[np.append(True, query[1:] != query[:-1])]
        lower = below[run] - below[first_run][query] + irrelevant[run] / 2
        wins = np.bincount(query, np.where(relevant, lower, 0.0), len(self.n_relevant))
        mixed = self.mixed
        return float((wins[mixed] / (self.n_relevant * self.n_irrelevant)[mixed]).mean())


def _sampled(data: RankingDataset) -> RankingDataset:
    """Whole queries with about as many documents as a check needs."""
    if data.n_documents <= _MOST_DOCUMENTS:
        return data
    order = np.random.default_rng(_SEED).permutation(data.n_queries)
    drawn = np.cumsum(np.diff(data.offsets)[order]) <= _MOST_DOCUMENTS
    return data.select(np.sort(order[drawn]))


def _text_columns(data: RankingDataset, named: Collection[str] | None) -> NDArray[np.int64]:
    """The columns of scores of the query's words, among those that differ within some query."""
    matrix = data.features
    starts = np.repeat(data.offsets[:-1], np.diff(data.offsets))
    with np.errstate(invalid="ignore"):
        first = matrix[starts]
        varies = ((matrix != first) & ~(np.isnan(matrix) & np.isnan(first))).any(axis=0)
    if named is not None:
        return np.flatnonzero(varies & np.isin(data.feature_names, list(named)))
    return np.flatnonzero(varies & ~_of_the_document(data))


def _of_the_document(data: RankingDataset) -> NDArray[np.bool_]:
    """Which columns have the same value for a document in all its queries."""
    none = np.zeros(data.n_features, np.bool_)
    if data.doc_ids is None:
        return none
    codes = numbers_in(data.doc_ids.dictionary_encode().indices)
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    if len(again) < _FEWEST_QUERIES:
        return none
    first, second = data.features[order[again]], data.features[order[again + 1]]
    equal = (first == second) | (np.isnan(first) & np.isnan(second))
    # A column that is almost never there says nothing by staying away twice.
    often = np.isfinite(first).mean(axis=0) > _MANY
    same: NDArray[np.bool_] = equal.all(axis=0) & often
    return same


def _found_by_nothing(
    data: RankingDataset, columns: NDArray[np.int64], known: bool
) -> Iterator[ResultWarning]:
    relevant = data.features[data.labels > 0][:, columns]
    if not relevant.size:
        return
    lost = float((np.isnan(relevant) | (relevant == 0)).all(axis=1).mean())
    if lost > _MANY:
        which = "text feature" if known else "feature of the query"
        yield ResultWarning(
            "never-retrieved",
            f"{lost:.0%} of the relevant documents have no match in any {which}: a query never "
            "brings them, so that a model of them ranks what users never see",
            "judge what your query brings (owpc-ltr judge pool)",
        )


def _worse_than_random(
    data: RankingDataset, pairs: _MixedQueries, columns: NDArray[np.int64], known: bool
) -> Iterator[ResultWarning]:
    if int(pairs.mixed.sum()) < _FEWEST_QUERIES or not len(columns):
        return
    best, name = max((pairs.right(data.features[:, c]), data.feature_names[c]) for c in columns)
    if best <= 0.5:
        which = "text feature" if known else "feature"
        yield ResultWarning(
            "worse-than-random",
            f"every single {which} ranks these judgments at or below random: the best, '{name}', "
            f"has {best:.0%} of the pairs right; the irrelevant documents were picked because they "
            "match, or the relevant ones although they do not",
            "judge what your query brings (owpc-ltr judge pool)",
            joint=": ",
        )


def _from_other_sources(data: RankingDataset, pairs: _MixedQueries) -> Iterator[ResultWarning]:
    if not pairs.are_enough:
        return
    signs: list[tuple[float, str, str]] = []
    for column, name in enumerate(data.feature_names):
        values = data.features[:, column]
        signs.append((pairs.right(values), f"the feature '{name}'", name))
        missing = np.isnan(values)
        if missing.any() and not missing.all():
            right = pairs.right(missing.astype(np.float64))
            signs.append((right, f"whether '{name}' is missing", name))
    best, what, feature = max((max(right, 1 - right), what, name) for right, what, name in signs)
    if best > _SEPARATED:
        yield ResultWarning(
            "leak",
            f"{what} alone tells relevant from irrelevant documents in {best:.1%} of "
            f"{pairs.number:,} pairs: they seem to come from different sources, which a model "
            "learns in place of relevance",
            "judge documents of one source (owpc-ltr judge pool)",
            (feature,),
        )


def _of_the_same_clicks(data: RankingDataset, pairs: _MixedQueries) -> Iterator[ResultWarning]:
    """A feature from a table that has the relevant documents on top: it may be made of the same."""
    if not pairs.are_enough:
        return
    names = external_names(sources_in(data.manifest))
    columns = {name: data.features[:, data.feature_names.index(name)] for name in names}
    rights = [(pairs.right(values), name) for name, values in columns.items()]
    right, name = max(rights, default=(0.0, ""))
    if _OF_A_TABLE < right <= _SEPARATED:
        yield ResultWarning(
            "external-features",
            f"the feature '{name}' from a table alone has {right:.0%} of the pairs of a relevant "
            "and an irrelevant document right: it seems to be made of what the grades are made of",
            "make tables of clicks before the judged period, or let people judge (owpc-ltr judge "
            "pool)",
            (name,),
        )


def _sampled_alike(pairs: _MixedQueries) -> Iterator[ResultWarning]:
    relevant, irrelevant = set(pairs.n_relevant.tolist()), set(pairs.n_irrelevant.tolist())
    if len(relevant) == 1 and len(irrelevant) == 1 and 0 not in relevant | irrelevant:
        yield ResultWarning(
            "sampled-negatives",
            f"each of {len(pairs.n_relevant)} queries has {relevant.pop()} relevant and "
            f"{irrelevant.pop()} irrelevant documents: such negatives were sampled, not judged, "
            "and are not what a query brings",
            "judge what it brings (owpc-ltr judge pool)",
        )


def _weighed(part: RankingDataset) -> bool:
    return part.document_weights is not None and bool((part.document_weights != 1).any())
