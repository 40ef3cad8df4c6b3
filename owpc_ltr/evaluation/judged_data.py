"""Judged queries: read by their content, checked, and chosen for a measurement.

Judged queries, read by their content, and checks of their judgments. Data are a dataset, a folder
of parts, or judgments. In production a model ranks what a query retrieves. Judgments of other
documents (answers that the query never retrieves, negatives from another source) teach it to tell
these apart, and held-out judgments of the same kind do not show the error: `judgment_warnings`
checks the judged documents and their features for it.

Which queries are measured: those that no ranker learned from or was chosen on, by its record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from owpc_ltr.data.construction import logged_with
from owpc_ltr.data.dataset import RankingDataset, numbers_in
from owpc_ltr.data.datasets import dataset_of, open_or_read
from owpc_ltr.data.feature_sources import external_names, sources_in
from owpc_ltr.data.judgments import (
    JUDGED_BY,
    JudgedQuery,
    Judgments,
    UsedWeights,
    importance_of,
    judges_column,
    judges_of,
    machines_among,
    weights_of,
)
from owpc_ltr.data.parquet import DATASET_KEY
from owpc_ltr.data.partitioned import JudgedTable, PartitionedDataset
from owpc_ltr.data.runs import TrecRun, is_run
from owpc_ltr.data.splits import (
    QueryDigests,
    clusters_of,
    digests_of,
    known_by_id_alone,
    known_sides,
    query_text,
    tells_queries,
)
from owpc_ltr.errors import BadInput, Refused, UsageError, give_warnings
from owpc_ltr.evaluation.measurement import ComparedQueries
from owpc_ltr.evaluation.rules import machine_labels
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.files.input import first_lines, open_regular, read_head
from owpc_ltr.files.tables import PARQUET
from owpc_ltr.host.judgment_lists import read_judgments
from owpc_ltr.metrics import uneven
from owpc_ltr.models.combined import FEATURE, FoldOf, fold_records
from owpc_ltr.protocols import RankingModel

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


def params_of(data: Dataset) -> list[dict[str, Any]]:
    """The parameters of each query; none where the data do not know."""
    params = data.query_params
    return [] if params is None else [json.loads(each) for each in params.to_pylist()]


def texts_of(data: RankingDataset) -> pa.StringArray | None:
    """What users typed, query by query; None where the data do not know."""
    if data.query_params is None:
        return None
    texts = [query_text(params) for params in params_of(data)]
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


Queries = JudgedTable | Sequence[JudgedQuery]
SIDES = ("auto", "all", "train", "validation", "test")
_HELD_OUT = ("auto", "test")
Records = Mapping[str, Mapping[str, Any]]
"""The record of each ranker's training, by what the ranker is called."""
D = TypeVar("D", bound=JudgedTable)
_NAME = "the model"
_IN_WORDS = {
    "test": "held out from",
    "train": "training queries of",
    "validation": "validation queries of",
}


class ChosenQueries(NamedTuple):
    """The queries by number, which side they are on (`test`: held out), why, and warnings.

    `seen` has, by ranker, the warning that it was trained or chosen on some of them. `folds` has,
    by ranker, the fold whose model ranks a query instead (side `folds`).
    """

    queries: NDArray[np.int64]
    side: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seen: Mapping[str, tuple[ResultWarning, ...]] = {}
    folds: Mapping[str, FoldOf] = {}


class NothingHeldOut(Refused):
    """Every query was seen by a ranker; `sides` says by which."""

    def __init__(self, message: str, sides: Mapping[str, NDArray[np.str_]]) -> None:
        """Keep where each query was."""
        super().__init__(message)
        self.sides = sides


def choose_queries(
    records: Records, queries: Queries, side: str = "auto", *, by_folds: bool | None = None
) -> ChosenQueries:
    """The queries on a side; `auto`: those that no ranker learned from, or was chosen on.

    A query that a ranker has never seen is held out, whatever data it is in; one that it has seen
    is recognised by its id or its text. `by_folds`: so is one that the model of a fold, which ranks
    it instead, has not seen; by default for `auto` and `test`. Raises NothingHeldOut where no query
    is left, Refused where no ranker knows of the side.
    """
    chosen = _choose(records, queries, side, by_folds)
    machines = machines_among(queries if isinstance(queries, Sequence) else queries.head)
    seen = dict(chosen.seen)
    for name, record in records.items():
        models = (record.get("source") or {}).get("judging_models", ())
        if (same := next((model for model in models if model in machines), None)) is not None:
            warning = ResultWarning(
                "same-judge",
                f"'{same}' gave {machines[same]:.0%} of these judgments, and those that {name} was "
                "trained on: what it errs in counts as right",
                "leave its judgments out, or let people grade these documents (owpc-ltr judge "
                "merge)",
            )
            seen[name] = (*seen.get(name, ()), warning)
    return chosen._replace(seen={name: of for name, of in seen.items() if of})


def _choose(records: Records, queries: Queries, side: str, by_folds: bool | None) -> ChosenQueries:
    check_side(side)
    n_queries = queries.n_queries if isinstance(queries, JudgedTable) else len(queries)
    trained = {name: record for name, record in records.items() if _is_trained(record)}
    digests = digests_of(queries) if any(map(tells_queries, trained.values())) else None
    clusters = clusters_of(queries) if trained else np.arange(n_queries)

    def sides_by(record: Mapping[str, Any]) -> NDArray[np.str_] | None:
        """Where a spelling of a query that was seen has been seen, too."""
        sides = known_sides(record, queries, digests)
        if sides is None:
            return None
        seen = sides != "test"
        again = ~seen & np.isin(clusters, clusters[seen])
        return np.where(again, "train", sides)

    sides = {name: sides_by(record) for name, record in trained.items()}
    known = {name: on for name, on in sides.items() if on is not None}
    folds: dict[str, NDArray[np.int64]] = {}
    if by_folds or (by_folds is None and side in _HELD_OUT):
        for name, on in known.items():
            # Of a query that a model has seen the fold whose model has not; −1 for all others.
            folds[name] = np.full(n_queries, -1)
            for number, fold in enumerate(fold_records(trained[name])):
                if (unseen := sides_by(fold)) is not None:
                    free = (on != "test") & (folds[name] < 0) & (unseen == "test")
                    folds[name][free] = number
            known[name] = np.where(folds[name] >= 0, "test", on)
        sides |= known
    every_query = np.arange(n_queries)
    if side == "all":
        seen = {name: training_warnings(name, on) for name, on in sides.items()}
        by_query = _of_ids(folds, every_query, queries)
        return ChosenQueries(every_query, "all", seen=seen, folds=by_query)
    unknown = {name: training_warnings(name, None) for name in trained if name not in known}
    warnings = tuple(warnings_of_model[0].line for warnings_of_model in unknown.values())
    if not known and side == "auto":
        which = "unknown" if unknown else "all"
        return ChosenQueries(every_query, which, (), warnings, unknown)
    if not known:
        raise Refused(
            f"nothing tells the {side} queries of this data: no record has the queries that "
            f"{' and '.join(trained) or 'any of the rankers'} was trained on; use split 'all'"
        )
    side = "test" if side == "auto" else side
    left = np.flatnonzero(np.all([on == side for on in known.values()], axis=0))
    why = "; ".join(_why(trained, known, side, digests))
    seen = {name: training_warnings(name, on[left]) for name, on in known.items()} | unknown
    if not len(left):
        raise NothingHeldOut(
            f"no query is {_IN_WORDS[side]} {_all_of(known)}: {why}; give other judged queries, "
            "or use split 'all', which flatters rankers that were trained on them",
            known,
        )
    by_query = _of_ids(folds, left, queries)
    which = side
    if side == "test":
        which = "unknown" if unknown else "folds" if by_query else "test"
    note = f"{len(left):,} of {n_queries:,} queries are {_IN_WORDS[side]} {_all_of(known)}: {why}"
    notes = (note,) if len(left) < n_queries else ()
    return ChosenQueries(left, which, notes, warnings, seen, folds=by_query)


def _of_ids(
    folds: Mapping[str, NDArray[np.int64]], left: NDArray[np.int64], queries: Queries
) -> dict[str, FoldOf]:
    """The folds by the ids of queries; only of rankers with a query that the model of one ranks."""
    by_ranker: dict[str, FoldOf] = {}
    for name, of_query in folds.items():
        numbers = left[of_query[left] >= 0]
        if len(numbers):
            ids = _ids_of(queries).take(pa.array(numbers)).to_pylist()
            by_ranker[name] = dict(zip(ids, of_query[numbers].tolist(), strict=True))
    return by_ranker


def _ids_of(queries: Queries) -> pa.StringArray:
    if isinstance(queries, Sequence):
        return pa.array([query.query_id for query in queries], pa.string())
    return queries.query_ids


class EvaluationQueries(NamedTuple, Generic[D]):
    """The queries to measure on, with warnings about them.

    `side` is `all`, or the side that they were on when the model was trained.
    """

    data: D
    side: str
    warnings: tuple[str, ...] = ()


def model_data(
    model: RankingModel | TrecRun, data: D, side: str = "auto", *, by_folds: bool = False
) -> EvaluationQueries[D]:
    """The queries to evaluate a model on, with the columns it expects, and which side they are.

    `auto`: the held-out ones (see `choose_queries`), `by_folds` also those that the models of its
    folds have not seen; where the model saw them all, all, with a warning.

    Raises BadInput where the features are others, and Refused where a side is asked for
    that the model does not know.
    """
    check_side(side)
    records: dict[str, Mapping[str, Any]] = {}
    if not isinstance(model, TrecRun):
        check_features(model, data)
        records = {_NAME: model.record}
    try:
        chosen = choose_queries(records, data, side, by_folds=by_folds and side in _HELD_OUT)
    except NothingHeldOut as nothing:
        if side != "auto":
            raise
        what = "was trained on" if (nothing.sides[_NAME] == "train").any() else "was chosen on"
        warning = (
            f"these are the queries that it {what}: the figures flatter it; measure on others, or "
            "keep some out (data.split())"
        )
        return EvaluationQueries(data, "all", (warning,))
    part = data
    if len(chosen.queries) < data.n_queries:
        # A selection is of the kind that it is from.
        part = cast("D", data.select(chosen.queries))
    # That some of its own training data are not held out needs no note.
    source = {} if not records else records[_NAME].get("source") or {}
    same_data = source.get("split") is not None and source.get("fingerprint") == data.fingerprint
    notes = () if same_data or side != "auto" else chosen.notes
    return EvaluationQueries(part, chosen.side, (*notes, *chosen.warnings))


def compared_queries(
    queries: Queries, chosen: ChosenQueries, *, notes: Sequence[str] = ()
) -> ComparedQueries:
    """The queries of a comparison, warnings about them, and which of them are one request.

    They are a dataset, or judged queries. Weights are those of judged queries; those of data are
    read where these are measured.
    """
    clusters = clusters_of(queries)
    weights, texts, warnings = None, None, [*machine_labels(queries)]
    if isinstance(queries, Sequence):
        params = [query.params for query in queries]
        texts = pa.array(map(query_text, params), pa.string())
        weights = uneven(np.array([importance_of(query) for query in queries], np.float64))
        unused = [UNUSED] if UsedWeights.among(queries).documents else []
    else:
        unused = unused_weights(queries)
        params = params_of(queries)
        texts = texts_of(queries) if isinstance(queries, RankingDataset) else None
        warnings += judgment_warnings(queries.head)
    return ComparedQueries(
        _ids_of(queries),
        texts,
        weights,
        chosen.side,
        notes=(*chosen.notes, *notes),
        messages=(*chosen.warnings, *unused),
        clusters=None if len(np.unique(clusters)) == len(clusters) else clusters,
        warnings=tuple(warnings),
        by_ranker=chosen.seen,
        cross_validated=frozenset(chosen.folds),
        params=params,
    )


def training_warnings(name: str, sides: NDArray[np.str_] | None) -> tuple[ResultWarning, ...]:
    """Whether a ranker has seen compared queries, or may have.

    `sides` says on which side each of these was at its training; None where that is not known.
    """
    if sides is None:
        unknown = ResultWarning(
            "unknown-training",
            f"nothing tells which queries {name} was trained on: it may have seen these",
            "import it with the data that it was trained on (`import_model(trained_on=…)`), or "
            "compare on queries that are newer than it",
        )
        return (unknown,)
    seen = int((sides != "test").sum())
    warning = ResultWarning(
        "seen-queries",
        f"{name} was trained or chosen on {seen:,} of these {len(sides):,} queries, which "
        "shows nothing of others",
        "compare on queries that it has not seen",
    )
    return (warning,) if seen else ()


def check_side(side: str) -> None:
    """Refuse what is no side."""
    if side not in SIDES:
        raise UsageError(f"unknown split '{side}': choose among {', '.join(SIDES)}")


def check_features(model: RankingModel, data: JudgedTable, featureset: str | None = None) -> None:
    """Refuse data of other features than the model's, whose feature set is `featureset`."""
    trained_hash = model.record.get("featureset_hash")
    if data.feature_names != model.feature_names:
        what = _difference(model, data)
    elif trained_hash and data.featureset_hash and trained_hash != data.featureset_hash:
        what = (
            "the data was logged with another version of the feature set than the model was "
            f"trained on (hash {trained_hash[:12]})"
        )
    else:
        return
    if not (featureset or trained_hash or data.featureset_hash):
        raise BadInput(f"{what}: name the features as in training, in the same order")
    logged = f"; it was logged with {logged_with(data)}" if data.featureset_hash else ""
    right = "the model's feature set"
    if featureset:
        right = f"'{featureset}' (`log_features(featureset='{featureset}')`)"
    raise BadInput(f"{what}{logged}: log the data with {right}")


def _difference(model: RankingModel, data: JudgedTable) -> str:
    missing = [name for name in model.feature_names if name not in data.feature_names]
    extra = [name for name in data.feature_names if name not in model.feature_names]
    if not missing and not extra:
        return "the data has the model's features in another order"
    named = [f"lacks '{missing[0]}'" if missing else "", f"has '{extra[0]}'" if extra else ""]
    return (
        f"the model was trained on other features than the data has: the data "
        f"{' and '.join(filter(None, named))} ({len(model.feature_names)} features against "
        f"{len(data.feature_names)})"
    )


def _is_trained(record: Mapping[str, Any]) -> bool:
    """Whether a record may be of a trained model: that of a single feature is of none."""
    return not str(record.get("base", "")).startswith(FEATURE)


def _all_of(known: Mapping[str, Any]) -> str:
    return next(iter(known)) if len(known) == 1 else "all rankers"


def _why(
    records: Records, known: Mapping[str, NDArray[np.str_]], side: str, digests: QueryDigests | None
) -> Iterator[str]:
    """Of how many queries each ranker is the reason that they are left out."""
    for name, on in known.items():
        if side != "test":
            yield f"{name} has {int((on == side).sum()):,}"
            continue
        verbs = {"train": "trained on", "validation": "chosen on"}
        uses = [f"{verb} {n:,}" for use, verb in verbs.items() if (n := int((on == use).sum()))]
        if uses:
            yield f"{name} was {' and '.join(uses)} of them"
        alone = 0 if digests is None else known_by_id_alone(records[name], digests)
        if alone:
            yield (
                f"{alone:,} of these have the id of a query that {name} has seen, and another "
                "text: give them other ids if they are other queries"
            )
