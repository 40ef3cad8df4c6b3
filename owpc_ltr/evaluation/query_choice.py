"""Which queries are measured: those that no ranker learned from or was chosen on, by its record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments.grouping import JudgedQuery
from owpc_ltr.data.partitioned.dataset import PartitionedDataset
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.splits import (
    QueryDigests,
    digests_of,
    is_own,
    known_by_id_alone,
    known_sides,
    tells_queries,
)
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import Doubt
from owpc_ltr.models.reordering import FEATURE
from owpc_ltr.plain_text import normalised_text
from owpc_ltr.protocols import RankingModel

Data = RankingDataset | PartitionedDataset
Queries = Data | Sequence[JudgedQuery]
SIDES = ("auto", "all", "train", "validation", "test")
Records = Mapping[str, Mapping[str, Any]]
"""The record of each ranker's training, by what the ranker is called."""
D = TypeVar("D", bound=Data)
_NAME = "the model"
_MOST_REPEATED = 1.1
"""How much larger repeated queries may make the variance of a mean: intervals are 5 % too short."""
_IN_WORDS = {
    "test": "held out from",
    "train": "training queries of",
    "validation": "validation queries of",
}


class ChosenQueries(NamedTuple):
    """The queries by number, which they are (`test`: held out), why these, and what is doubtful.

    `seen` has, by ranker, the doubt that it was trained or chosen on some of them.
    """

    queries: NDArray[np.int64]
    side: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seen: Mapping[str, tuple[Doubt, ...]] = {}

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What any ranker has seen."""
        return tuple(doubt for doubts in self.seen.values() for doubt in doubts)


class NothingHeldOut(Refused):
    """Every query was seen by a ranker; `sides` says by which."""

    def __init__(self, message: str, sides: Mapping[str, NDArray[np.str_]]) -> None:
        """Keep where each query was."""
        super().__init__(message)
        self.sides = sides


def choose_queries(records: Records, queries: Queries, side: str = "auto") -> ChosenQueries:
    """The queries on a side; `auto`: those that no ranker learned from, or was chosen on.

    A query that a ranker has never seen is held out, whatever data it is in; one that it has seen
    is recognised by its id or its text. Raises NothingHeldOut where no query is left, Refused where
    no ranker knows of the side.
    """
    check_side(side)
    n_queries = queries.n_queries if isinstance(queries, Data) else len(queries)
    trained = {name: record for name, record in records.items() if _is_trained(record)}
    digests = digests_of(queries) if any(map(tells_queries, trained.values())) else None
    sides = {name: known_sides(record, queries, digests) for name, record in trained.items()}
    known = {name: on for name, on in sides.items() if on is not None}
    if side == "all":
        seen = {name: seen_doubts(name, on) for name, on in known.items()}
        return ChosenQueries(np.arange(n_queries), "all", seen=seen)
    doubts = tuple(_doubts(trained, known, queries))
    if not known and side == "auto":
        return ChosenQueries(np.arange(n_queries), "all", (), doubts)
    if not known:
        raise Refused(
            f"nothing tells the {side} queries of this data: no record has the queries that "
            f"{' and '.join(trained) or 'any of the rankers'} was trained on; use split 'all'"
        )
    wanted = "test" if side == "auto" else side
    left = np.flatnonzero(np.all([on == wanted for on in known.values()], axis=0))
    why = "; ".join(_why(trained, known, wanted, digests))
    seen = {name: seen_doubts(name, on[left]) for name, on in known.items()}
    if not len(left):
        raise NothingHeldOut(
            f"no query is {_IN_WORDS[wanted]} {_all_of(known)}: {why}; give other judged queries, "
            "or use split 'all', which flatters rankers that were trained on them",
            known,
        )
    if len(left) == n_queries:
        return ChosenQueries(left, wanted, (), doubts, seen)
    note = f"{len(left):,} of {n_queries:,} queries are {_IN_WORDS[wanted]} {_all_of(known)}: {why}"
    return ChosenQueries(left, wanted, (note,), doubts, seen)


class EvaluationQueries(tuple[D, str]):
    """The queries to measure on and which side they are, with what makes them doubtful."""

    warnings: tuple[str, ...]

    def __new__(cls, data: D, side: str, warnings: tuple[str, ...] = ()) -> EvaluationQueries[D]:
        """The pair, and its warnings beside it."""
        pair = super().__new__(cls, (data, side))
        pair.warnings = warnings
        return pair

    @property
    def data(self) -> D:
        """The queries."""
        return self[0]

    @property
    def side(self) -> str:
        """`all`, or the side that they were on when the model was trained."""
        return self[1]


def model_data(model: RankingModel | TrecRun, data: D, side: str = "auto") -> EvaluationQueries[D]:
    """The queries to evaluate a model on, with the columns it expects, and which side they are.

    `auto`: the held-out ones (see `choose_queries`); where the model saw them all, all, with a
    warning. Raises BadInput where the features are others, and Refused where a side is asked for
    that the model does not know.
    """
    check_side(side)
    records: dict[str, Mapping[str, Any]] = {}
    if not isinstance(model, TrecRun):
        _check_features(model, data)
        records = {_NAME: model.record}
    try:
        chosen = choose_queries(records, data, side)
    except NothingHeldOut as nothing:
        if side != "auto":
            raise
        what = "was trained on" if (nothing.sides[_NAME] == "train").any() else "was chosen on"
        said = (
            f"these are the queries that it {what}: the figures flatter it; measure on others, or "
            "keep some out (data.split())"
        )
        return EvaluationQueries(data, "all", (said,))
    part = data
    if len(chosen.queries) < data.n_queries:
        # A selection is of the kind that it is from.
        part = cast(D, data.select(chosen.queries))
    # Of its own data, everybody knows that some are not held out.
    source = {} if not records else records[_NAME].get("source") or {}
    own = source.get("split") is not None and source.get("fingerprint") == data.fingerprint
    notes = () if own or side != "auto" else chosen.notes
    return EvaluationQueries(part, chosen.side, (*notes, *chosen.warnings))


def seen_doubts(name: str, sides: NDArray[np.str_] | None) -> tuple[Doubt, ...]:
    """The doubt about a ranker that was trained or chosen on some of the compared queries.

    `sides` says on which side each of these was at its training; None where that is not known.
    """
    seen = 0 if sides is None else int((sides != "test").sum())
    if sides is None or not seen:
        return ()
    return (
        Doubt(
            "seen-queries",
            f"{name} was trained or chosen on {seen:,} of these {len(sides):,} queries, which "
            "shows nothing of others",
            "compare on queries that it has not seen",
        ),
    )


def repeated_doubts(queries: Queries) -> tuple[Doubt, ...]:
    """The doubt about requests that stand in the data several times, under ids of their own.

    They win and lose together, and a test takes them for independent: of requests that are there
    `k` times, the variance of a mean is up to Σk² / n times that of n independent ones.
    """
    asked = (
        [query.params for query in queries]
        if isinstance(queries, Sequence)
        else map(json.loads, queries.query_params.to_pylist())
        if queries.query_params is not None
        else []
    )
    requests = Counter(_request(params) for params in asked if params)
    n_queries = requests.total()
    repeated = n_queries - len(requests)
    if sum(times**2 for times in requests.values()) <= _MOST_REPEATED * n_queries:
        return ()
    return (
        Doubt(
            "repeated-queries",
            f"{repeated:,} of these {n_queries:,} queries are others again, under another id: they "
            "win and lose together, and count as if they were independent",
            "give each query once, with a query_weight for how often it is asked",
        ),
    )


def check_side(side: str) -> None:
    """Refuse what is no side."""
    if side not in SIDES:
        raise UsageError(f"unknown split '{side}': choose among {', '.join(SIDES)}")


def _check_features(model: RankingModel, data: Data) -> None:
    if data.feature_names != model.feature_names:
        raise BadInput(_difference(model, data))
    trained_hash = model.record.get("featureset_hash")
    if trained_hash and data.featureset_hash and trained_hash != data.featureset_hash:
        raise BadInput(
            "the data was logged with another version of the feature set than the model was "
            f"trained on (hash {data.featureset_hash[:12]} against {trained_hash[:12]}): log again"
        )


def _difference(model: RankingModel, data: Data) -> str:
    missing = [name for name in model.feature_names if name not in data.feature_names]
    extra = [name for name in data.feature_names if name not in model.feature_names]
    if not missing and not extra:
        return "the data has the model's features in another order: log again with its feature set"
    named = [f"lacks '{missing[0]}'" if missing else "", f"has '{extra[0]}'" if extra else ""]
    return (
        f"the model was trained on other features than the data has: the data "
        f"{' and '.join(filter(None, named))} ({len(model.feature_names)} features against "
        f"{len(data.feature_names)})"
    )


def _request(params: Mapping[str, Any]) -> str:
    """What is asked: all parameters, as a user may spell them."""
    said = {
        name: normalised_text(value) if isinstance(value, str) else value
        for name, value in params.items()
    }
    return json.dumps(said, sort_keys=True)


def _is_trained(record: Mapping[str, Any]) -> bool:
    """Whether a record may be of a trained model: that of a single feature is of none."""
    return not str(record.get("base", "")).startswith(FEATURE)


def _all_of(known: Mapping[str, Any]) -> str:
    return next(iter(known)) if len(known) == 1 else "all rankers"


def _why(
    records: Records,
    known: Mapping[str, NDArray[np.str_]],
    wanted: str,
    digests: QueryDigests | None,
) -> Iterator[str]:
    """Of how many queries each ranker is the reason that they are left out."""
    for name, on in known.items():
        if wanted != "test":
            yield f"{name} has {int((on == wanted).sum()):,}"
            continue
        counts = (int((on == one).sum()) for one in ("train", "validation"))
        words = zip(("trained on", "chosen on"), counts, strict=True)
        told = [f"{verb} {count:,}" for verb, count in words if count]
        if told:
            yield f"{name} was {' and '.join(told)} of them"
        alone = 0 if digests is None else known_by_id_alone(records[name], digests)
        if alone:
            yield (
                f"{alone:,} of these have the id of a query that {name} has seen, and another "
                "text: give them other ids if they are other queries"
            )


def _doubts(
    records: Records, known: Mapping[str, NDArray[np.str_]], queries: Queries
) -> Iterator[str]:
    """What is not known of the queries that models were trained on."""
    for name, record in records.items():
        if name not in known:
            yield (
                f"nothing tells which queries {name} was trained on: if it was on these, the "
                "figures flatter it"
            )
        elif not tells_queries(record) and not is_own(record, queries):
            yield (
                f"the record of {name}, of an earlier version, has a split and not its queries: "
                "which are held out follows from the hashes of their ids alone; train it again"
            )
