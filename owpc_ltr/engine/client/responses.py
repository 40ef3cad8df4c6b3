"""Responses of an engine: answers are checked before use, error answers become one line.

A proxy may answer anything with 200. A read is accepted if it has the shape that is used, a write
if the answer says that exactly this was done. An error answer becomes an `EngineRefusal`, which
says what to do.

A search may also be answered for a part of an index. Every search whose hits are used is read here,
so that one rule decides what is complete.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from owpc_ltr.files.input import shown
from owpc_ltr.redaction import redacted

if TYPE_CHECKING:
    from owpc_ltr.files.strict_json import Json

_LARGEST = 2**63


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer, which knows what was asked for and where in the answer it stands.

    Every look at what is not there, or is of another kind, raises EngineUnavailable in one line.

    >>> hit = AnswerPart({"_id": "d1", "_score": 2}, "the hits")
    >>> hit["_id"].text, hit["_score"].number
    ('d1', 2.0)
    >>> hit["sort"]
    Traceback (most recent call last):
    owpc_ltr.engine.client.responses.MalformedAnswer: what came for the hits is not an engine's \
answer, which would have 'sort': check the address, and any proxy between it and you
    """

    value: Any
    what: str
    place: str = ""

    def __getitem__(self, key: str) -> AnswerPart:
        """What an object has under a key."""
        inner = f"{self.place}.{key}" if self.place else key
        if not isinstance(self.value, dict) or key not in self.value:
            raise unexpected_answer(self.what, inner)
        return AnswerPart(self.value[key], self.what, inner)

    def __iter__(self) -> Iterator[AnswerPart]:
        """The parts of a list."""
        if not isinstance(self.value, list):
            raise self._strange()
        return (AnswerPart(part, self.what, f"{self.place}[]") for part in self.value)

    @property
    def object(self) -> dict[str, Any]:
        """An object."""
        if not isinstance(self.value, dict):
            raise self._strange()
        return self.value

    @property
    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self._strange()
        return self.value

    @property
    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._strange()
        # JSON has integers of any length, and 1e400.
        if isinstance(self.value, int) and abs(self.value) >= _LARGEST:
            raise self._strange()
        if not math.isfinite(self.value):
            raise self._strange()
        return float(self.value)

    @property
    def count(self) -> int:
        """A number of things."""
        if type(self.value) is not int or not 0 <= self.value < _LARGEST:
            raise self._strange()
        return self.value

    def _strange(self) -> MalformedAnswer:
        return unexpected_answer(self.what, self.place)


def part_of(answer: Json, key: str, what: str) -> dict[str, Any]:
    """An object inside an answer that is an object."""
    return AnswerPart(answer, what)[key].object


def check_acknowledged(answer: Json, what: str) -> None:
    """Refuse the answer to a change of indices or aliases that does not say it was done."""
    done = AnswerPart(answer, what)["acknowledged"].value
    if done is False:
        raise EngineUnavailable(
            f"the cluster did not take over {what} in time: look whether its nodes are well, and "
            "try again"
        )
    if done is not True:
        raise unexpected_answer(what, "acknowledged")


def check_written(answer: Json, what: str, identifier: str, *results: str) -> str:
    """What became of this document, if the answer says that it is one of these results."""
    written = AnswerPart(answer, what)
    if written["_id"].text != identifier or written["result"].text not in results:
        raise unexpected_answer(what, f"result: {' or '.join(results)}")
    return written["result"].text


def check_refreshed(answer: Json, what: str) -> None:
    """Refuse a refresh or a merge that failed in a shard."""
    if AnswerPart(answer, what)["_shards"]["failed"].count:
        raise Refused(f"the engine did {what} in a part of the index only: try again")


def bulk_items(answer: Json, what: str, identifiers: Sequence[str]) -> list[dict[str, Any]]:
    """What became of each document of a bulk of `index` operations, in their order."""
    items = list(AnswerPart(answer, what)["items"])
    if len(items) != len(identifiers):
        raise Refused(f"the engine answered for {len(items)} of {len(identifiers)} documents")
    results = []
    for item, identifier in zip(items, identifiers, strict=True):
        done = item["index"]
        if done["_id"].text != identifier or not 200 <= done["status"].count < 600:
            raise unexpected_answer(what, f"items[].index of '{identifier}'")
        if done["status"].count < 300 and done["result"].text not in {"created", "updated"}:
            raise unexpected_answer(what, "items[].index.result: created or updated")
        results.append(done.object)
    return results


class MalformedAnswer(EngineUnavailable):
    """An answer that no engine gives: what stands before one may answer anything."""


def unexpected_answer(what: str, place: str = "") -> MalformedAnswer:
    """The error for an answer that lacks what an engine has in this place."""
    lacking = f", which would have '{place}'" if place else ""
    return MalformedAnswer(
        f"what came for {what} is not an engine's answer{lacking}: check the address, and any "
        "proxy between it and you"
    )


_LONGEST = 400
_EMPTY_WORDS = re.compile(
    r"all shards failed|\[\d+:\d+\] \[[^\]]*\] failed to parse (field|object).*|compile error"
)
_CAST = re.compile(r"class \S+ cannot be cast to class \S+( \(.*\))?")
"""Java's words for a query on a field of another type: they name two classes, and no field."""
_WRONG_TYPE = "a field is mapped as another type than the query on it needs"
_PARSER_PLACE = re.compile(r"\s*at \[Source: REDACTED[^\]]*\]")
_NO_SCRIPTS = (
    "allow them (script.allowed_types), use a model whose scores are bounded for every document "
    "(models show: interval.holds), or upload it again, with the LTR plugin by "
    "`store_kind='plugin-free'`: the client then scores it"
)
_ADVICE = (
    ("please create it first", "`owpc-ltr featureset push` makes it"),
    ("no such index [.ltrstore", "the store is not there: `owpc-ltr featureset push` makes it"),
    ("no such index", "check the name of the index"),
    ("unknown model", "check the name of the model, and the store it was uploaded to"),
    ("unknown featureset", "check the name of the feature set, and the store it was pushed to"),
    ("feature set [", "push it first: `owpc-ltr featureset push`"),
    ("missing required param", "give every parameter that the feature set declares"),
    ("not updatable", "a model's name is never used again: take another one"),
    ("plugin is disabled", "set ltr.plugin.enabled to true, or use `store_kind='plugin-free'`"),
    (
        "too_many",
        "use fewer features or shorter queries, or raise the limit: OpenSearch's setting "
        "indices.query.bool.max_clause_count, Elasticsearch's heap",
    ),
    ("cannot execute [inline] scripts", _NO_SCRIPTS),
    ("not supported [mustache]", "add the module lang-mustache to the nodes"),
    ("allowed stored script size", "raise script.max_size_in_bytes, or train a smaller model"),
    ("script_lang not supported", _NO_SCRIPTS),
    ("of script", "fix the script in its template"),
    (_WRONG_TYPE, "compare the mapping of the index with the feature's template"),
    ("negative", "fix the script or boost: no score may be negative"),
    ("minimum", "normalisers need a minimum of 0 or more, and a larger maximum"),
    ("standard deviation", "normalisers need a standard deviation above 0"),
    ("in conjunction with", "take that part out of the query, or search without the model"),
    ("defined twice", "give one of them another name"),
    ("rank_lib_error", "fix the model: its features are not those of the set"),
    ("rescore window", "use a smaller window"),
    ("derived feature", "an expression may use features of its set and its own params"),
    ("error while parsing model", "fix the model file, or export it again"),
    ("cannot create query while parsing feature", "fix this feature's template"),
)


class EngineRefusal(Refused):
    """The engine understood a request and says no; asked again it would say the same.

    `status` is the HTTP status, `type` and `reason` are the engine's own words for the cause.
    """

    def __init__(self, asked: str, status: int, type: str, reason: str) -> None:  # noqa: A002
        self.status = status
        self.type = redacted(type)
        self.reason = redacted(reason)
        words = ", ".join(word for word in (type, str(status)) if word)
        advice = _advice(f"{type} {reason}")
        super().__init__(
            f"the engine refuses {asked}: {reason or 'no reason given'} ({words}){advice}"
        )


class NoSuchIndex(EngineRefusal):
    """The index does not exist: its name is wrong, so that this is bad input."""

    exit_code: ClassVar[int] = BadInput.exit_code


class NotAllowed(EngineUnavailable):
    """The engine accepts the credentials, but they lack a right (403), which its words name."""


def cause(body: Json) -> tuple[str, str]:
    """The engine's own type and reason for an error, without the layers that only repeat it."""
    answer = body if isinstance(body, dict) else {}
    error = answer.get("error")
    if isinstance(error, str):
        return "", one_line(error)
    if not isinstance(error, dict):
        absent = answer.get("found") is False or answer.get("exists") is False
        absent = absent or answer.get("result") == "not_found"
        return ("not_found", "it is not there") if absent else ("", "")
    layers = [layer for layer in _layers(error) if layer[1]] or [("", "")]
    reasons = [reason for _, reason in layers]
    telling = (
        [
            (type_, reason)
            for position, (type_, reason) in enumerate(layers)
            if not _EMPTY_WORDS.fullmatch(reason.replace("\n", " "))
            # An outer layer often wraps the words of an inner one, which then say it all.
            and not any(inner in reason for inner in reasons[position + 1 :])
        ]
        or layers[-1:]
    )
    words = ": ".join(reason.rstrip(".") for _, reason in telling)
    return telling[-1][0], one_line(_PARSER_PLACE.sub("", words))


_RIGHT = re.compile(
    r"(?:no permissions for|action|granted by the (cluster|index) privileges) \[([\w:/*, -]+)\]"
)
"""What OpenSearch, Elasticsearch and later versions of that say of a right that lacks."""


def missing_right(reason: str) -> str:
    """The right whose lack is the engine's reason for a 403, in words.

    >>> missing_right("no permissions for [indices:data/read/search] and User [name=anna]")
    'the index privilege indices:data/read/search'
    >>> missing_right("this action is granted by the cluster privileges [monitor,manage,all]")
    'the cluster privilege monitor or manage or all'
    """
    said = _RIGHT.findall(reason)
    if not said:
        return "more rights"
    kind, right = said[-1]
    kind = kind or ("cluster" if right.startswith("cluster:") else "index")
    return f"the {kind} privilege {' or '.join(re.split(', *', right))}"


def one_line(text: str) -> str:
    """Foreign text made fit for one line: printable, without secrets, and not endless."""
    text = redacted(text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _layers(error: dict[str, Any]) -> list[tuple[str, str]]:
    """(type, reason) from the outermost to the innermost cause."""
    layers: list[tuple[str, str]] = []
    layer: Any = error
    while isinstance(layer, dict) and len(layers) < 100:
        reason = _CAST.sub(_WRONG_TYPE, str(layer.get("reason") or "")).strip()
        layers.append((str(layer.get("type") or ""), reason))
        shards = layer.get("failed_shards")
        inner = layer.get("caused_by")
        if isinstance(shards, list) and shards and isinstance(shards[0], dict):
            inner = shards[0].get("reason") or inner
        layer = inner
    return layers


def _advice(words: str) -> str:
    lowered = words.lower()
    return next((f"; {advice}" for sign, advice in _ADVICE if sign in lowered), "")


Hit = dict[str, Any]
"""A hit as the engine gives it; its `_id` is a string, its `_source`, if it has one, an object."""
_LARGEST_SCORE = 1e39
"""Scores are of 32 bits."""
_SIZE = 10
"""The hits of a search that says no size."""
_SHORTENING = frozenset({"collapse", "min_score", "search_after", "terminate_after"})
NO_LIMIT = 2**31 - 1
"""The `terminate_after` of a search for aggregations without hits, which no shard reaches: without
one OpenSearch 3.8 says `terminated_early` of every such search, complete or not."""


class Incomplete(Refused):
    """An answer that is not complete; if the request is repeated, it may be."""


@dataclass(frozen=True)
class SearchAnswer:
    """A complete answer: its hits, its milliseconds by the engine's clock, and its exact total.

    `total` is None where the engine does not count every match. `pit` is the id of the point in
    time, which an engine may change from search to search. `content` is the whole answer.
    """

    hits: tuple[Hit, ...]
    took: int
    total: int | None = None
    pit: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(
        cls,
        answer: Json,
        body: Mapping[str, Any],
        what: str = "the search",
        *,
        scored: bool = False,
    ) -> Self:
        """The answer to a search with this body; `scored`: every hit has a finite score.

        Raises Incomplete where it is not complete, or has a hit twice, or more or fewer hits than
        the search must have; MalformedAnswer for what no engine answers; Refused for a hit without
        a score.
        """
        check_complete(answer, body, what)
        whole = AnswerPart(answer, what)
        count: Any = whole["hits"].object.get("total")
        total, exact = count, True
        if isinstance(count, dict):
            total, exact = count.get("value"), count.get("relation") == "eq"
        total = total if type(total) is int else None
        # A `filter_path` leaves out the empty list.
        listed = whole["hits"]["hits"] if "hits" in whole["hits"].object or total != 0 else ()
        hits = tuple(_hit(part, what, scored=scored) for part in listed)
        _check_number(hits, body, total, what)
        pit = whole.object.get("pit_id")
        return cls(
            hits,
            whole["took"].count,
            total if exact else None,
            pit if type(pit) is str else None,
            content=whole.object,
        )

    def exact_total(self) -> int:
        """The number of matches. Raises Incomplete where not every match is counted."""
        if self.total is None:
            raise Incomplete("the engine does not count its hits exactly: try again")
        return self.total


def check_complete(answer: Json, body: Mapping[str, Any], what: str) -> None:
    """Raise Incomplete unless every shard searched all of its documents in time.

    A search whose body has a limit (`terminate_after`) may end there.
    """
    whole = AnswerPart(answer, what)
    shards, content = whole["_shards"].object, whole.object
    # Engines count a skipped shard (nothing in it can match) among the successful ones.
    counts = [shards.get(name) for name in ("successful", "total", "failed")]
    successful, total, failed = counts
    fault = ""
    if content.get("timed_out") is not False:
        fault = "timed_out"
    elif content.get("terminated_early") and body.get("terminate_after", NO_LIMIT) == NO_LIMIT:
        fault = "terminated_early"
    elif not all(type(count) is int for count in counts):
        fault = "its shards are not counted"
    elif failed or not total or successful != total:
        fault = f"{successful} of {total} shards answered, {failed} failed"
    if fault:
        raise Incomplete(
            f"the engine gave {what} for a part of the index only ({fault}): try again"
        )


def _hit(part: AnswerPart, what: str, *, scored: bool) -> Hit:
    hit, identifier, score = part.object, part["_id"].text, part.value.get("_score")
    if not isinstance(hit.get("_source", {}), dict):
        raise unexpected_answer(what, "hits.hits[]._source")
    is_number = type(score) in (int, float)
    # JSON has integers of any length, and 1e400.
    if is_number and not abs(score) < _LARGEST_SCORE:
        raise unexpected_answer(what, "hits.hits[]._score")
    if scored and not is_number:
        raise Refused(
            f"document {shown(identifier)} came without a score: the query, or a feature of the "
            "model, has no finite value; fix its script"
        )
    return hit


def _check_number(
    hits: tuple[Hit, ...], body: Mapping[str, Any], total: int | None, what: str
) -> None:
    """Refuse hits that no engine gives: one twice, or more or fewer than the search must have.

    The number that an answer promises is its total, from `from` on and up to `size`; lists that are
    collapsed, or cut by other keys of the body, may be shorter.
    """
    places = Counter(tuple(str(hit.get(k)) for k in ("_index", "_id", "_routing")) for hit in hits)
    size, first = int(body.get("size", _SIZE)), int(body.get("from", 0))
    promised = 0
    if total is not None and not _SHORTENING & body.keys():
        promised = min(size, max(0, total - first))
    fault = ""
    if len(places) < len(hits):
        twice = next(place for place, number in places.items() if number > 1)
        fault = f"document {shown(twice[1])} twice"
    elif len(hits) > size:
        fault = f"{len(hits)} hits, where {size} were asked for"
    elif len(hits) < promised:
        fault = f"{len(hits)} hits, where its total of {total} has {promised}"
    if fault:
        raise Incomplete(
            f"the engine gave {what} {fault}, which is not a whole answer: check any proxy "
            "between it and you, and try again"
        )
