"""Which queries are measured: those that no ranker learned from or was chosen on, by its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.data.construction import logged_with
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import JudgedQuery, UsedWeights, importance_of, machines_among
from owpc_ltr.data.partitioned import JudgedTable
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.splits import (
    QueryDigests,
    clusters_of,
    digests_of,
    known_by_id_alone,
    known_sides,
    query_text,
    tells_queries,
)
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.judged_data import UNUSED, judgment_warnings, texts_of, unused_weights
from owpc_ltr.evaluation.measurement import ComparedQueries
from owpc_ltr.evaluation.rules import machine_labels
from owpc_ltr.evaluation.significance import ResultWarning
from owpc_ltr.metrics import uneven
from owpc_ltr.models.combined import FEATURE, FoldOf, fold_records
from owpc_ltr.protocols import RankingModel

Data = JudgedTable
Queries = Data | Sequence[JudgedQuery]
SIDES = ("auto", "all", "train", "validation", "test")
_HELD_OUT = ("auto", "test")
Records = Mapping[str, Mapping[str, Any]]
"""The record of each ranker's training, by what the ranker is called."""
D = TypeVar("D", bound=Data)
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
    n_queries = queries.n_queries if isinstance(queries, Data) else len(queries)
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
        texts = pa.array([query_text(query.params) for query in queries], pa.string())
        weights = uneven(np.array([importance_of(query) for query in queries], np.float64))
        unused = [UNUSED] if UsedWeights.among(queries).documents else []
    else:
        unused = unused_weights(queries)
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


def check_features(model: RankingModel, data: Data, featureset: str | None = None) -> None:
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


def _difference(model: RankingModel, data: Data) -> str:
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
