"""Store: where feature sets and models live in a cluster, and how they are used in a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from owpc_ltr.errors import UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.formats.stored_model import StoredModel

LARGEST_WINDOW = 10_000


@dataclass(frozen=True)
class Search:
    """One search request: what goes into the URL and what goes into the body."""

    body: dict[str, Any]
    params: dict[str, str] = field(default_factory=dict)


class Store(Protocol):
    """Feature sets and models in a cluster: with the LTR plugin, or without it.

    Every name is checked before it reaches a URL. All methods raise EngineUnavailable when the
    engine does not answer, and Refused, in one line, when it says no.
    """

    kind: str
    """`ltr-plugin` or `plugin-free`."""

    name: str | None
    """Which of the stores of its kind; None for the default one."""

    def prepare(self) -> None:
        """Make the store if it is not there yet; harmless when it is."""
        ...

    def put_featureset(self, featureset: FeatureSet, *, replace: bool = False) -> None:
        """Keep a feature set, after trying its templates where it has a validation."""
        ...

    def get_featureset(self, name: str) -> FeatureSet:
        """The feature set of this name; BadInput if there is none."""
        ...

    def list_featuresets(self) -> list[str]:
        """Names, sorted."""
        ...

    def delete_featureset(self, name: str) -> None:
        """Take out a feature set; models keep their own copy of it."""
        ...

    def put_model(self, model: StoredModel) -> None:
        """Keep a model under a name that is not taken.

        An equal model under that name is success (a retry after a lost answer); another one is
        Refused: a name is never reused.
        """
        ...

    def get_model(self, name: str) -> StoredModel:
        """The model of this name; BadInput if there is none."""
        ...

    def list_models(self) -> list[str]:
        """Names, sorted."""
        ...

    def delete_model(self, name: str) -> None:
        """Take out a model."""
        ...

    def log_search(
        self, featureset: FeatureSet, params: dict[str, Any], document_ids: list[str]
    ) -> Search:
        """A search that returns exactly these documents (those that exist) with their features."""
        ...

    def features_of(self, featureset: FeatureSet, hit: dict[str, Any]) -> list[float]:
        """Feature values of one hit, in order; NaN where the query did not match.

        The hit is one of a `log_search`, or of a search with `window_log`, within its window.

        Raises Refused where the answer does not carry what was asked for.
        """
        ...

    def window_log(self, featureset: FeatureSet, params: dict[str, Any], window: int) -> Search:
        """What an application's search adds to have the features of its best `window` hits.

        Neither the hits nor their order or scores change; it is one request all the same.
        """
        ...

    def rescore(
        self, model: StoredModel, params: dict[str, Any], window: int
    ) -> list[dict[str, Any]]:
        """Rescore clauses that replace the score of the best `window` documents by the model's.

        `window` must be at least `from` + `size` of the search: a document beyond it is left with
        the score 0, which would put it above rescored documents with negative scores. (Each shard
        rescores its own best `window`, so that nothing beyond a window is then ever returned.) The
        engine sorts anew after each clause, beyond the window too, so that what one of several
        clauses brings below those beyond it is not in the window of the next: `window.py` keeps
        that from happening. A search with `sort` or scroll cannot be rescored.
        """
        ...


def silent_rescore(query: dict[str, Any], window: int) -> list[dict[str, Any]]:
    """A rescorer that computes a query for the best documents, and adds nothing to their scores."""
    return [
        {
            "window_size": check_window(window),
            "query": {"rescore_query": query, "query_weight": 1, "rescore_query_weight": 0},
        }
    ]


def replacing_rescore(query: dict[str, Any], window: int) -> list[dict[str, Any]]:
    """A rescorer that puts the scores of a query in the place of the best documents' own."""
    return [
        {
            "window_size": check_window(window),
            "query": {
                "rescore_query": query,
                "query_weight": 0.0,
                "rescore_query_weight": 1.0,
                "score_mode": "total",
            },
        }
    ]


def check_window(window: int) -> int:
    """A window that every engine takes by default."""
    if not 1 <= window <= LARGEST_WINDOW:
        raise UsageError(f"a window is 1 to {LARGEST_WINDOW} documents, not {window}")
    return window


def is_number(value: Any) -> bool:
    """Whether it is a number that a float holds: JSON has integers of any length.

    >>> [is_number(each) for each in (1.5, float("inf"), 7, 10**400, "1", True, None)]
    [True, True, True, False, False, False, False]
    """
    return type(value) is float or (type(value) is int and abs(value) < 1 << 1000)
