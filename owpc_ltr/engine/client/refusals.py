"""Error answers of an engine, each as one line that says what to do: `EngineRefusal`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from owpc_ltr.errors import BadInput, EngineUnavailable, Refused

_LONGEST = 400
_EMPTY_WORDS = re.compile(
    r"all shards failed|\[\d+:\d+\] \[[^\]]*\] failed to parse (field|object).*|compile error"
)
_CAST = re.compile(r"class \S+ cannot be cast to class \S+( \(.*\))?")
"""Java's words for a query on a field of another type: they name two classes, and no field."""
_WRONG_TYPE = "a field is mapped as another type than the query on it needs"
_PARSER_PLACE = re.compile(r"\s*at \[Source: REDACTED[^\]]*\]")
_ADVICE = (
    ("please create it first", "`owpc-ltr featureset push` makes it"),
    ("no such index [.ltrstore", "the store is not there: `owpc-ltr featureset push` makes it"),
    ("no such index", "check the name of the index"),
    ("unknown model", "check the name of the model, and the store it was uploaded to"),
    ("unknown featureset", "check the name of the feature set, and the store it was pushed to"),
    ("feature set [", "push it first: `owpc-ltr featureset push`"),
    ("missing required param", "give every parameter that the feature set declares"),
    ("not updatable", "a model's name is never used again: take another one"),
    ("plugin is disabled", "set ltr.plugin.enabled to true, or use --store-kind plugin-free"),
    (
        "too_many",
        "use fewer features or shorter queries, or raise the limit: OpenSearch's setting "
        "indices.query.bool.max_clause_count, Elasticsearch's heap",
    ),
    (
        "cannot execute [inline] scripts",
        "allow them (script.allowed_types), or use a model whose scores are bounded for every "
        "document (models show: interval.holds)",
    ),
    ("of script", "mend the script in its template"),
    (_WRONG_TYPE, "compare the mapping of the index with the feature's template"),
    ("negative", "mend the script or boost: no score may be negative"),
    ("minimum", "normalisers need a minimum of 0 or more, and a larger maximum"),
    ("standard deviation", "normalisers need a standard deviation above 0"),
    ("in conjunction with", "take that part out of the query, or search without the model"),
    ("defined twice", "give one of them another name"),
    ("rank_lib_error", "mend the model: its features are not those of the set"),
    ("rescore window", "use a smaller window"),
    ("derived feature", "an expression may use features of its set and its own params"),
    ("error while parsing model", "mend the model file, or export it again"),
    ("cannot create query while parsing feature", "mend this feature's template"),
)


class EngineRefusal(Refused):
    """The engine understood a request and says no; asked again it would say the same.

    `status` is the HTTP status, `type` and `reason` are the engine's own words for the cause.
    """

    def __init__(self, asked: str, status: int, type: str, reason: str) -> None:  # noqa: A002
        self._asked = asked
        self.status = status
        self.type = type
        self.reason = reason
        words = ", ".join(word for word in (type, str(status)) if word)
        advice = _advice(f"{type} {reason}")
        super().__init__(
            f"the engine refuses {asked}: {reason or 'no reason given'} ({words}){advice}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # It may come from another process.
        return self.__class__, (self._asked, self.status, self.type, self.reason)


class NoSuchIndex(EngineRefusal):
    """An index that was asked for is not there: what a name is, and not the work, is at fault."""

    exit_code: ClassVar[int] = BadInput.exit_code


class NotAllowed(EngineUnavailable):
    """The engine knows who asks, and does not give them this right (403), which its words name."""


def cause(body: Any) -> tuple[str, str]:
    """The engine's own type and reason for an error, without the layers that only repeat it."""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, str):
        return "", one_line(error)
    if not isinstance(error, dict):
        return ("not_found", "it is not there") if _says_absent(body) else ("", "")
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


def one_line(text: str) -> str:
    """Foreign text made fit for one line of a message: printable, and not endless."""
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


def _says_absent(body: Any) -> bool:
    return isinstance(body, dict) and (
        body.get("found") is False
        or body.get("exists") is False
        or body.get("result") == "not_found"
    )


def _advice(words: str) -> str:
    lowered = words.lower()
    return next((f"; {advice}" for sign, advice in _ADVICE if sign in lowered), "")
