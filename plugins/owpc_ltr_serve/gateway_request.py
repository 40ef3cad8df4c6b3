"""Searches that name a model: what of a request is the engine's, and what the model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.splits import query_text
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import check_body
from owpc_ltr.engine.stores import LARGEST_WINDOW
from owpc_ltr.errors import UsageError
from owpc_ltr.files.strict_json import kind_of, nesting, read_json_value, shown
from owpc_ltr.text import check_index, check_name
from owpc_ltr_serve.endpoint import DEEPEST_NESTING, Call, check_params

PARAMETERS = frozenset(
    {
        *("routing", "preference", "search_type", "typed_keys", "request_cache", "pretty"),
        *("ignore_unavailable", "allow_no_indices", "expand_wildcards", "ignore_throttled"),
        *("allow_partial_search_results", "rest_total_hits_as_int", "batched_reduce_size"),
        *("max_concurrent_shard_requests", "pre_filter_shard_size", "ccs_minimize_roundtrips"),
        *("cancel_after_time_interval", "timeout", "_source", "_source_includes"),
        "_source_excludes",
    }
)
"""Parameters of a search's URL that go to the engine as they are."""
_LONGEST_ID = 1000
"""Characters of a client's id."""
_IN_BODY = ("from", "size", "track_total_hits")
"""Parameters of a URL that stand for keys of the body."""
_COMBINED: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "total": np.add,
    "multiply": np.multiply,
    "avg": lambda engine, model: (engine + model) / 2,
    "max": np.maximum,
    "min": np.minimum,
}
"""How a rescorer joins the two scores of a document, by `score_mode`."""


@dataclass(frozen=True)
class Rescoring:
    """What a rescorer makes of the engine's score and the model's; by default the model's."""

    query_weight: float = 0.0
    model_weight: float = 1.0
    mode: str = "total"

    def combined(self, engine: Vector, model: Vector) -> Vector:
        """The scores by which documents are ordered."""
        if self == Rescoring():
            return model
        return _COMBINED[self.mode](self.query_weight * engine, self.model_weight * model)


@dataclass(frozen=True)
class GatewaySearch:
    """A search that names a model: `body` and `url_params` are the engine's, without the model.

    `params` are those of the feature set, `query_id` is what external features know the query by;
    `user` is UBI's part of the request. An `experiment` names two models in place of one.
    """

    index: str
    body: dict[str, Any]
    url_params: dict[str, str]
    model: str | None
    params: dict[str, Any]
    window: int = DEFAULT_WINDOW
    rescoring: Rescoring = Rescoring()
    query_id: str | None = None
    user: Mapping[str, Any] = field(default_factory=dict)
    experiment: str | None = None

    @property
    def first(self) -> int:
        """How many documents stand above the page."""
        return int(self.body.get("from", 0))

    @property
    def size(self) -> int:
        """How many documents a page has."""
        return int(self.body.get("size", 10))

    @property
    def end(self) -> int:
        """How many documents stand down to the end of the page."""
        return self.first + self.size

    @property
    def words(self) -> str:
        """What the user typed, as far as the search says."""
        return str(self.user.get("user_query") or query_text(self.params))


def read_search(call: Call) -> GatewaySearch:
    """The search of a request. Raises UsageError, naming the key, for one that cannot be ranked."""
    index = check_index(call.path_params["index"])
    if index.startswith("."):
        raise UsageError(f"'{index}' is a system index, which is not searched here")
    if nesting(call.body) > DEEPEST_NESTING:
        raise UsageError(f"the body is nested deeper than {DEEPEST_NESTING} levels")
    try:
        body = read_json_value(call.body.decode()) if call.body.strip() else {}
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from error
    body = dict(_object(body, "the body"))
    params = dict(call.query_params)
    for name in (name for name in _IN_BODY if name in params):
        try:
            body[name] = read_json_value(params.pop(name))
        except ValueError as error:
            raise UsageError(f"the URL's '{name}' is not a number: {error}") from error
    unknown = sorted(params.keys() - PARAMETERS)
    if unknown:
        raise UsageError(f"the URL has '{shown(unknown[0])}', which does not go with a model")
    for name in ("from", "size"):
        if name in body:
            _count(body[name], f"'{name}'", 0, LARGEST_WINDOW)
    ext = dict(_object(body.pop("ext", {}), "'ext'"))
    ours, user = ext.pop("owpc_ltr", None), ext.pop("ubi", {})
    if ext:
        body["ext"] = ext
    rescore = body.pop("rescore", None)
    if (ours is None) == (rescore is None):
        raise UsageError(
            'name the model, by "ext": {"owpc_ltr": {"model": NAME, "params": {…}}} or by an sltr '
            "in 'rescore': one of them; searches without a model go to the engine itself"
        )
    read = _of_ext(ours) if rescore is None else _of_rescore(rescore)
    check_params(read["params"])
    if _object(user, "'ext.ubi'").get("query_id") is not None:
        _query_id(user["query_id"])
    if "experiment" in read:
        _client_id(user.get("client_id"))
    check_body({key: part for key, part in body.items() if key != "query"})
    return GatewaySearch(index, body, params, user=user, **read)


def _of_ext(value: Any) -> dict[str, Any]:
    place = "'ext.owpc_ltr'"
    content = _object(value, place)
    read = _model_and_params(content, place, {"window", "query_id", "experiment"})
    if "experiment" in content:
        if read["model"] is not None:
            raise UsageError(f"{place} has a model and an experiment, which names two: give one")
        name = _text(content["experiment"], f"the experiment of {place}")
        read["experiment"] = check_name("search experiment", name)
    if "window" in content:
        read["window"] = _count(content["window"], f"the window of {place}", 1, LARGEST_WINDOW)
    if "query_id" in content:
        read["query_id"] = _text(content["query_id"], f"the query_id of {place}")
    return read


def _of_rescore(rescore: Any) -> dict[str, Any]:
    clauses = rescore if isinstance(rescore, list) else [rescore]
    if len(clauses) != 1:
        raise UsageError(f"'rescore' has {len(clauses)} clauses: give the one with the sltr")
    clause = _object(clauses[0], "'rescore'")
    query = _object(clause.get("query"), "'rescore.query'")
    part = _object(query.get("rescore_query"), "'rescore.query.rescore_query'")
    if set(part) != {"sltr"}:
        raise UsageError("'rescore' has no sltr that names a model: send it to the engine itself")
    _refuse_unknown(clause, {"window_size", "query"}, "'rescore'")
    weights = {"query_weight", "rescore_query_weight"}
    _refuse_unknown(query, {"rescore_query", "score_mode", *weights}, "'rescore.query'")
    sltr = _object(part["sltr"], "'sltr'")
    read = _model_and_params(sltr, "'sltr'", {"cache"})
    # The engine's own defaults.
    read["window"] = _count(
        clause.get("window_size", 10), "the window_size of 'rescore'", 1, LARGEST_WINDOW
    )
    mode = query.get("score_mode", "total")
    if not isinstance(mode, str) or mode not in _COMBINED:
        raise UsageError(f"the score_mode of 'rescore' is one of {', '.join(_COMBINED)}")
    numbers = [_number(query.get(name, 1), f"the {name} of 'rescore'") for name in sorted(weights)]
    read["rescoring"] = Rescoring(numbers[0], numbers[1], mode)
    return read


def _model_and_params(content: Mapping[str, Any], place: str, more: set[str]) -> dict[str, Any]:
    _refuse_unknown(content, {"model", "params", *more}, place)
    model = content.get("model")
    if model is not None:
        _text(model, f"the model of {place}")
    return {"model": model, "params": _object(content.get("params", {}), f"the params of {place}")}


def _refuse_unknown(content: Mapping[str, Any], keys: set[str], place: str) -> None:
    unknown = sorted(content.keys() - keys)
    if unknown:
        raise UsageError(
            f"{place} has '{shown(unknown[0])}', which is not known here: it takes "
            f"{', '.join(sorted(keys))}"
        )


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is {kind_of(value)}, not an object")
    return value


def _text(value: Any, what: str) -> str:
    """The value, which must be a text. Raises UsageError."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what} is {kind_of(value)}, not the text of a name")
    return value


def _query_id(value: Any) -> None:
    """Refuse an id that a header cannot bring back as it was logged."""
    text = value if isinstance(value, str) else ""
    if not (
        0 < len(text) <= 100 and text.isascii() and text.isprintable() and text == text.strip()
    ):
        raise UsageError("the query_id of 'ext.ubi' is 1 to 100 printable ASCII characters")


def _client_id(value: Any) -> None:
    if value is not None and type(value) not in (int, str):
        raise UsageError("the client_id of 'ext.ubi' is a text or a whole number")
    if len(str(value)) > _LONGEST_ID:
        raise UsageError(f"the client_id of 'ext.ubi' is longer than {_LONGEST_ID} characters")


def _number(value: Any, what: str) -> float:
    if type(value) not in (int, float) or abs(value) > 1e30:
        raise UsageError(f"{what} is not a number of use")
    return float(value)


def _count(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{what} is a whole number from {least} to {most}")
    return value
