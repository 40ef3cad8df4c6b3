"""Search requests: the query with its keywords, and the rescore clauses that a model adds.

Rescore windows are safe: no document beyond one can pass a document inside it. An engine leaves a
document beyond the window with its score times `query_weight`: 0 where the model replaces the
score, which is above every rescored document with a negative one. Pages then repeat documents, or
lose some. The engine also sorts again after each of several rescorers, so that the next one gets
another window. So here the score beyond the window is multiplied by `KEEP`, far below every
rescored score and still in the order of the search, and the first rescorer lifts rescored documents
above it, before any weight can lower them.

The interval of the model's scores says how far they must be lifted. Where it is not proven for
every document, a script limits what a rescorer may subtract to what the interval assumes: documents
that go further tie at the lower end, inside the window.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import part_of
from owpc_ltr.engine.options import (
    ALL_FIELDS,
    DEFAULT_WINDOW,
    Params,
    QueryTemplate,
    SearchIndex,
    Size,
    UploadedModel,
    Window,
)
from owpc_ltr.engine.stores import Store, check_collapse, check_window
from owpc_ltr.engine.stores.feature_queries import render
from owpc_ltr.errors import Refused, UsageError, give_warning
from owpc_ltr.features.feature_set import plain_params
from owpc_ltr.features.mustache import place_of, scripted
from owpc_ltr.files.output import digest_of
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.formats.plugin_free import plugin_free_model, score_shift
from owpc_ltr.formats.stored_model import StoredModel, elsewhere, is_client_scored
from owpc_ltr.models.analysis import LOWEST_RESCORED, ScoreInterval
from owpc_ltr.names import check_index
from owpc_ltr.signatures import Help, job
from owpc_ltr.text import ShortRepr, printable_lines

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

KEYWORDS = "{{keywords}}"
COLLAPSE = "collapse"
FILTERS = frozenset(
    {"post_filter", "min_score", "runtime_mappings", "terminate_after", "timeout", COLLAPSE}
)
"""Keys of a search's body that decide which documents are found.

Not every engine collapses results that it rescores: see `check_collapse`.
"""
CARRIED = FILTERS | {
    *("from", "size", "_source", "fields", "stored_fields", "docvalue_fields", "script_fields"),
    *("aggs", "aggregations", "highlight", "suggest", "explain", "profile", "version"),
    *("seq_no_primary_term", "track_total_hits", "track_scores", "stats", "ext"),
}
"""Keys of a search's body beside its query that rescoring leaves as they are."""
REFUSED = {
    "sort": "results are ordered by the model: leave it out, or rank on the field as a feature",
    "search_after": "it goes with a sort: ask for later pages with from, within the window",
    "scroll": "scrolled results are not rescored: ask for pages with from",
    "slice": "slices are for scrolling: ask for pages with from",
    "pit": "it takes the place of the index: leave it out",
    "rescore": "the model's own takes its place: leave it out",
    "knn": "it ranks beside the query: put it into the query, as a clause",
    "indices_boost": "the model's scores replace boosted ones: leave it out",
}
"""Keys with which results cannot be rescored, and what would do."""
TUNED_ON = "tuned_on"
"""Key of a query template beside its query: the queries that it was tuned on. It is not sent."""
KEEP = 2.0**-100
"""What a score is multiplied by beyond the window; within it, lost in the model's own score."""
FLOOR = LOWEST_RESCORED
"""The lowest score within the window: above what is left of any score below 2⁸⁰."""
_LEAST = "Math.max(_score + params.lift, params.floor)"
_MOST = "Math.min(_score, params.most)"
Clause = dict[str, Any]


@dataclass(frozen=True, repr=False)
class SearchRequest(ShortRepr):
    """What a search asks for, with a model or without.

    `query` is a template such as `{"match": {"title": "{{keywords}}"}}`; `params` fill it and the
    features. The best `size` documents are shown, the best `window` rescored. `rest` is what else
    the body of a search asks for: filters, aggregations, highlighting … `query_id` is the
    id of a judged query. Raises UsageError, naming the key and a remedy, for a
    search that cannot be rescored.
    """

    index: str
    query: dict[str, Any]
    params: dict[str, Any]
    size: int = 10
    window: int = DEFAULT_WINDOW
    rest: Mapping[str, Any] = field(default_factory=dict)
    query_id: str | None = None

    def __post_init__(self) -> None:
        check_index(self.index)
        check_query(self.query)
        check_body(self.rest)

    @property
    def filled(self) -> dict[str, Any]:
        """The query with its parameters in their places."""
        return render(self.query, self.params)

    @property
    def filters(self) -> dict[str, Any]:
        """What else decides which documents are found, without their order."""
        parts = {key: part for key, part in self.rest.items() if key in FILTERS}
        return render(parts, self.params) if parts else {}

    def showing_window(self) -> SearchRequest:
        """The request that shows the whole window."""
        return replace(self, size=max(self.size, self.window))


class RequestBody(dict[str, Any]):
    """The body of a search request; as text, its JSON.

    The text begins with the `template_call`, that of the model's search template, if it has one.
    """

    template_call: str = ""

    def __str__(self) -> str:
        return self.template_call + _json_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The body as JSON."""
        return dict(self)

    def _repr_html_(self) -> str:
        """The JSON."""
        from html import escape

        text = json.dumps(self, indent=2, ensure_ascii=False)
        return f"<div><b>Search request</b><pre>{escape(text)}</pre></div>"


def _json_text(content: dict[str, Any]) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    encoding = sys.stdout.encoding or "utf-8"
    if printable_lines(text).encode(encoding, "replace").decode(encoding) == text:
        return text
    # What the terminal cannot show is escaped, so that it is still the same JSON.
    return json.dumps(content, indent=2)


@job
def request(
    cluster: Cluster,
    keywords: Annotated[
        str, Help("What the user types; default: a place to fill in.", metavar="QUERY")
    ] = KEYWORDS,
    *,
    model: UploadedModel = None,
    index: SearchIndex = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    size: Size = None,
    window: Window = None,
) -> RequestBody:
    """Print the search request that an application sends.

    POST it to /INDEX/_search. MODEL:challenger is the challenger of a name.

    Where MODEL has a search template in the cluster, its call comes first: sent to
    /INDEX/_search/template, it needs no change when the model is switched. As JSON it is the whole
    request only.

    Without `keywords` the request has {{keywords}} where the user's words go. Add "from" for later
    pages: no document beyond the window passes one within it.

    Python: `query_template` and `params` are as for `search_request`. Warns where documents beyond
    the window may pass those within it.
    """
    if index is not None:
        check_index(index)
    store, name = cluster.uploaded(model)
    search = search_request(
        cluster,
        keywords,
        index=cluster.index_of(name, index),
        query_template=query_template,
        params=params,
        size=size,
        window=window,
    )
    interval = cluster.models.interval(name)
    if not math.isfinite(interval.low):
        give_warning(
            f"nothing is known of the scores of '{name}': documents beyond the window of "
            f"{max(search.window, search.size)} may pass those within it; upload it again to be "
            "safe"
        )
    stored = store.get_model(name)
    shift = score_shift(stored)
    if shift:
        give_warning(
            f"scores of '{name}' in the engine are the model's plus {shift:.6g}, so that none "
            "is negative: the order is the model's"
        )
    body = RequestBody(request_body(store, stored, search, interval))
    call = cluster.models.search_template(model)
    if call is not None:
        values = {**call["params"], "size": search.size, **search.params}
        call["params"] = {key: values[key] for key in call["params"]}
        path = f"POST /{search.index}/_search"
        body.template_call = f"{path}/template\n{_json_text(call)}\n\n{path}\n"
    return body


def search_request(
    cluster: Cluster,
    keywords: str,
    *,
    index: str,
    query_template: Mapping[str, Any] | Path | str | None = None,
    params: Mapping[str, Any] | None = None,
    size: int | None = None,
    window: int | None = None,
) -> SearchRequest:
    """The request for these keywords, in `query_template`, else in all text fields.

    `query_template` has `{{keywords}}` where the user's words go. It may be a file, and the whole
    body of a search; its `size` holds unless given, and so does the `window_size` of a `rescore`
    that has no more than that. `params` are further parameters of the query and of features: texts,
    numbers, lists (a query's vector, which may be an array) …
    """
    template, rest = cluster.template(index, query_template)
    if COLLAPSE in rest:
        check_collapse(cluster.engine.about())
    template_size = rest.pop("size", 10)
    shown = template_size if size is None else size
    filled = {"keywords": keywords, "query": keywords, **plain_params(params)}
    rescored = cluster.window(query_template, window)
    return SearchRequest(index, template, filled, shown, window=rescored, rest=rest)


def query_parts(
    engine: Engine, index: str, query: Mapping[str, Any] | Path | str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The query with its places to fill in, and the rest of the body that it came in."""
    if query is None or str(query) == ALL_FIELDS:
        return default_query(engine, index), {}
    template, rest = read_template(query)
    return template, without_window(rest)


def rescored_window(query: Mapping[str, Any] | Path | str | None, given: int | None) -> int:
    """How many documents are rescored: as given, as the template says, or the default."""
    if given is not None or query is None or str(query) == ALL_FIELDS:
        return DEFAULT_WINDOW if given is None else given
    return template_window(read_search(query)[1]) or DEFAULT_WINDOW


def default_query(engine: Engine, index: str) -> dict[str, Any]:
    """A plain full-text query over all text fields of an index, for `{{keywords}}`."""
    mapping = engine.request("GET", f"/{check_index(index)}/_mapping")
    words = f"the mapping of '{index}'"
    fields: set[str] = set()
    for name in mapping if isinstance(mapping, dict) else [""]:
        mapping_of = part_of(part_of(mapping, name, words), "mappings", words)
        fields |= set(_text_fields(mapping_of.get("properties", {})))
    if not fields:
        raise UsageError(
            f"the index '{index}' has no text field to search: give your application's query with "
            f"`query_template`"
        )
    return {"multi_match": {"query": KEYWORDS, "fields": sorted(fields)}}


def check_query(query: Mapping[str, Any]) -> None:
    """Refuse what an engine cannot rescore, in plainer words than the engine's own."""
    _refuse_keys(query)
    if COLLAPSE in query:
        raise UsageError(
            "the query has a 'collapse', which belongs beside the query: give the whole body"
        )


def check_body(rest: Mapping[str, Any]) -> None:
    """Refuse the keys of a search's body that rescoring does not allow, and unknown ones."""
    _refuse_keys(rest)
    unknown = sorted(rest.keys() - CARRIED)
    if unknown:
        why = REFUSED.get(unknown[0], "it is not known to go with rescoring: give the query alone")
        raise UsageError(f"the search's body has a '{unknown[0]}' beside its query: {why}")


def _refuse_keys(part: Mapping[str, Any]) -> None:
    for key in REFUSED.keys() & part.keys() - {"knn"}:
        raise UsageError(
            f"the query has a '{key}', and results cannot be rescored with one: {REFUSED[key]}"
        )


def read_search(source: Mapping[str, Any] | Path | str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A query, or that of a file, and what else stands beside it where it is a whole body."""
    is_file = isinstance(source, Path | str)
    return split_body(read_json_object(Path(source)) if is_file else source)  # type: ignore[arg-type]


def read_template(source: Mapping[str, Any] | Path | str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of a query template. Raises UsageError where no user's words would be searched."""
    query, rest = read_search(source)
    if "{{" not in json.dumps([query, rest], default=str):
        named = f" {source}" if isinstance(source, Path | str) else ""
        raise UsageError(
            f"the query template{named} has no {{{{keywords}}}}, so that every search brings the "
            "same documents: write {{keywords}} where the user's words go"
        )
    return query, rest


def split_body(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A search's query, and the rest of its body; a query alone has no rest.

    A `size` or `from` that the application gives, as `"size": "{{size}}"`, is left to the caller.
    Raises UsageError for one that is no whole number.
    """
    query = content.get("query")
    if not isinstance(query, dict):
        return dict(content), {}
    rest = {key: part for key, part in content.items() if key not in {"query", TUNED_ON}}
    for key in rest.keys() & {"size", "from"}:
        number = rest[key]
        if isinstance(number, str) and place_of(number) == key:
            del rest[key]
        elif type(number) is not int or number < 0:
            raise UsageError(
                f"the template's {key} is {number!r}: give a whole number, or "
                f'"{{{{{key}}}}}" where applications give it'
            )
    return query, rest


def tuned_on(source: Mapping[str, Any] | Path | str | None) -> Mapping[str, Any] | None:
    """The record of a query template that was tuned on judged queries; None for any other."""
    if source is None or str(source) == ALL_FIELDS:
        return None
    content = read_json_object(Path(source)) if isinstance(source, Path | str) else source
    record = content.get(TUNED_ON)
    return record if isinstance(record, dict) else None


def template_window(rest: Mapping[str, Any]) -> int | None:
    """How many documents a template has rescored: `{"rescore": {"window_size": 200}}`, or None."""
    rescore = rest.get("rescore")
    if not isinstance(rescore, dict) or rescore.keys() != {"window_size"}:
        return None
    window = rescore["window_size"]
    if type(window) is not int:
        raise UsageError(f"the template's rescore.window_size is {window!r}: give a whole number")
    return check_window(window)


def without_window(rest: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of a body without what only says how many documents are rescored."""
    has_window = template_window(rest) is not None
    return {key: part for key, part in rest.items() if not (has_window and key == "rescore")}


def query_digest(template: Mapping[str, Any]) -> str:
    """A digest of a query template: of its query, and what else decides which documents it finds.

    `template` is a query, or the whole body of a search.
    """
    query, rest = split_body(template)
    return digest_of({"query": query, **filters_of(rest)})


def filters_of(rest: Mapping[str, Any]) -> dict[str, Any]:
    """What of the rest of a search's body decides which documents are found."""
    return {key: part for key, part in rest.items() if key in FILTERS}


def request_body(
    store: Store,
    model: StoredModel | None,
    request: SearchRequest,
    interval: ScoreInterval | None = None,
) -> dict[str, Any]:
    """The body that an application sends: the query, and the rescoring of its best documents.

    The window is never smaller than what is shown: a document beyond it would keep a score of
    another scale. With the `interval` of the model's scores, that is also safe for later pages,
    beyond the window (see `window_safe`).
    """
    first = int(request.rest.get("from", 0))
    rest = render(dict(request.rest), request.params) if request.rest else {}
    body: dict[str, Any] = {"query": request.filled, **rest, "size": request.size}
    if model is not None:
        if is_client_scored(model):
            why = model.featureset.why_by_client
            raise Refused(
                f"'{model.name}' is scored by the client, so that there is no request for the "
                "engine alone: let the application ask owpc-ltr serve, or use owpc-ltr search; "
                f"{why or elsewhere(model)}"
            )
        window = max(request.window, first + request.size)
        body["rescore"] = rescore_clauses(store, model, request.params, window, interval)
    return body


def rescore_clauses(
    store: Store,
    model: StoredModel,
    params: dict[str, Any],
    window: int,
    interval: ScoreInterval | None = None,
) -> list[dict[str, Any]]:
    """The rescore clauses of a search, by which no document beyond the window passes one inside.

    That needs the interval of the model's scores, but for a model whose form has its own.
    """
    clauses = store.rescore(model, params, window)
    form = plugin_free_model(model)
    score_interval = interval if form is None else form.interval
    return window_safe(clauses, score_interval) if score_interval else clauses


def _text_fields(properties: dict[str, Any], prefix: str = "") -> list[str]:
    fields = []
    for name, content in properties.items():
        if content.get("type") == "text":
            fields.append(prefix + name)
        fields += _text_fields(content.get("properties", {}), f"{prefix}{name}.")
    return fields


def window_safe(clauses: list[Clause], interval: ScoreInterval) -> list[Clause]:
    """Rescore clauses with which a rescored document stays above all others.

    Orders within the window stay, but for scores that float32 no longer tells apart beside the
    constant, and for those below the interval where it is not proven. Where it has no lower end,
    no constant would do, and nothing is changed.
    """
    if not math.isfinite(interval.low):
        return clauses
    if interval.proven:
        return _lifted(clauses, lift(interval.low))
    if "sltr" in _query(clauses[0]):
        return [_held_above(clauses[0], interval.low), *clauses[1:]]
    # An intercept that adds is in the lower end already: terms may take that much more away.
    added = sum(_weight(clause) for clause in clauses if _query(clause) == {"match_all": {}})
    taken = max(added, 0.0) - interval.low
    held = [_held_below(clause, taken) for clause in clauses]
    # Of each the lowest that it can add; the others add 0 or more.
    lows = [_weight(clause) * most for clause, most in held if _weight(clause) < 0]
    slack = len(held) * 2.0**-23 * -sum(lows)
    return _lifted([clause for clause, _ in held], lift(sum(lows) - slack))


def lift(low: float) -> float:
    """The constant that brings `low` to the floor: 0, or the smallest power of two that does."""
    if low >= FLOOR:
        return 0.0
    # A power of two costs the scores the fewest digits.
    return float(2.0 ** math.ceil(math.log2(FLOOR - low)))


def _lifted(clauses: list[Clause], offset: float) -> list[Clause]:
    first = clauses[0]
    if not offset:
        return [{**first, "query": {**first["query"], "query_weight": KEEP}}, *clauses[1:]]
    lifted = {
        "rescore_query": {"match_all": {}},
        "query_weight": KEEP,
        "rescore_query_weight": offset,
        "score_mode": "total",
    }
    return [
        {"window_size": first["window_size"], "query": lifted},
        {**first, "query": {**first["query"], "query_weight": 1.0}},
        *clauses[1:],
    ]


def _held_above(clause: Clause, low: float) -> Clause:
    """A whole model's score, lifted, and at the floor where it would be lower."""
    query = scripted(_query(clause), _LEAST, lift=lift(low), floor=FLOOR)
    return _with_query(clause, query, query_weight=KEEP, score_mode="total")


def _held_below(clause: Clause, taken: float) -> tuple[Clause, float]:
    """A sum up to the most that the interval reckons to be `taken` away; and that.

    Only what takes something away is held. What was never seen may still be 1, as the score of
    many a query is.
    """
    query, weight = _query(clause), _weight(clause)
    if weight >= 0 or query == {"match_all": {}}:
        return clause, 1.0
    most = max(taken / -weight, _of_ones(query))
    return _with_query(clause, scripted(query, _MOST, most=most)), most


def _of_ones(query: dict[str, Any]) -> float:
    """What a sum of weighted queries is where each of them scores 1; any other query itself."""
    parts = query.get("bool", {}).get("should", ())
    return sum(float(part["function_score"]["weight"]) for part in parts) or 1.0


def _with_query(clause: Clause, query: dict[str, Any], **more: object) -> Clause:
    return {**clause, "query": {**clause["query"], "rescore_query": query, **more}}


def _query(clause: Clause) -> dict[str, Any]:
    query: dict[str, Any] = clause["query"]["rescore_query"]
    return query


def _weight(clause: Clause) -> float:
    return float(clause["query"]["rescore_query_weight"])
