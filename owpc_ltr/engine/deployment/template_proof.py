"""The proof of a search template: made of the whole request with a model, stored, and searched by.

Its text is the request whose parameters are tags. A tag stands inside strings, and a parameter that
is no text has its place outside them: the request is built with an unusual number or list, and the
tag takes its place in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed, SearchAnswer
from owpc_ltr.engine.deployment.search_template import SearchTemplates
from owpc_ltr.engine.deployment.serving_mode import with_keywords
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, Refused, give_warnings
from owpc_ltr.features.mustache import TO_JSON, is_structure, strings, variables
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.score_range import ScoreInterval

_LOGIC = re.compile(r"\{\{\s*[#^]|\{\{[^{}]*\.")
"""A section, or a part of an object: what a feature makes of it depends on the value."""
_AWKWARD = ' say "hi" \\ {{x}}\nline'
_PROVED = 20
"""Queries of a proof."""
_WHOLE = {"allow_partial_search_results": "false", "preference": "owpc-ltr"}
"""The same copies of all shards answer both searches of a proof."""
_FIRST_NUMBER = 713_000_000_000_000


def _template_text(
    store: Store, stored: StoredModel, search: SearchRequest, interval: ScoreInterval
) -> tuple[str, dict[str, Any]]:
    """The whole request with a model as mustache, and its parameters.

    `search.params` has an example of each: a text goes into strings, a number is a bare number, a
    list or an object JSON. `size` and `from` may be left out: their defaults are those of `search`.
    Raises BadInput for features that do not fit into a template.
    """
    _check_features(store, stored)
    places, tags, shown = dict[str, Any](), dict[str, str](), {**search.params}
    for name, example in search.params.items():
        # `query` is another name of the user's words, unless it is a parameter of its own.
        same = name == "query" and example == search.params["keywords"]
        tag = "{{keywords}}" if same else f"{{{{{name}}}}}"
        if isinstance(example, str):
            places[name] = shown[name] = tag
            continue
        if is_structure(example):
            tag = f"{{{{#toJson}}}}{name}{{{{/toJson}}}}"
        places[name] = [tag] if is_structure(example) else _FIRST_NUMBER + len(places)
        tags[_compact(places[name])] = tag
    body = request_body(store, stored, replace(search, params=places), interval)
    numbers = {"from": int(body.pop("from", 0)), "size": body.pop("size")}
    shown |= numbers
    text = _compact(body)
    for place, tag in tags.items():
        text = text.replace(place, tag)
    for name, default in numbers.items():
        text = f'{text[:-1]},"{name}":{{{{{name}}}}}{{{{^{name}}}}}{default}{{{{/{name}}}}}}}'
    used = variables(text)
    return text, {name: value for name, value in shown.items() if name in used}


def queries_of_proof(
    store: Store, search: SearchRequest, samples: Sequence[Mapping[str, Any]]
) -> list[SearchRequest]:
    """The queries of a proof; the last has characters that JSON must escape.

    `search` is the application's, `samples` are queries as a model remembers them. Raises BadInput
    for a placeholder of the search that is neither keywords nor filters, nor a parameter of the
    samples or of the search.
    """
    typed = [with_keywords(sample["params"]) for sample in samples[:_PROVED]]
    words = typed[0]["keywords"]
    awkward = {key: f"{words}{_AWKWARD}" if it == words else it for key, it in typed[0].items()}
    queries = [
        replace(search, params={"filters": [], **search.params, **params})
        for params in (*typed, awkward)
    ]
    request_body(store, None, queries[0])
    return queries


def proved_template(
    engine: Engine,
    store: Store,
    stored: StoredModel,
    queries: Sequence[SearchRequest],
    *,
    interval: ScoreInterval,
    tolerance: float,
) -> dict[str, Any] | None:
    """The template of a model, stored for the time of its proof under the model's name.

    `queries` are of `queries_of_proof`; without any, it is that of an earlier upload, if there
    was one. `tolerance` is how far scores may differ from those of the whole request. Warns,
    and returns None, where the cluster or the account takes no search template, or the features
    do not fit into one. Raises Refused if it ranks otherwise than the whole request.
    """
    templates = SearchTemplates(engine, store)
    if not queries:
        return templates.of_model(stored.name)
    try:
        text, params = _template_text(store, stored, queries[0], interval)
        source = templates.signed(stored.name, text)
        templates.put(stored.name, source)
        for query in queries:
            size = query.window
            whole = {**request_body(store, stored, query, interval), "size": size}
            call = {"id": stored.name, "params": {**query.params, "size": size}}
            # A document that was added between two searches changes scores: it does so once.
            if not any(_agree(engine, query.index, whole, call, tolerance) for _ in range(2)):
                raise Refused(
                    "the search template ranks otherwise than the whole request for "
                    f"'{query.params['keywords']}'"
                )
    except (EngineRefusal, NotAllowed, BadInput) as why:
        give_warnings([
            f"no search template is stored, and applications send the whole request: {why}"
        ])  # fmt: skip
        return None
    finally:
        with suppress(NotAllowed):
            templates.delete(stored.name)
    return {"source": source, "params": params}


def _agree(
    engine: Engine, index: str, whole: dict[str, Any], call: dict[str, Any], tolerance: float
) -> bool:
    """Whether a whole request and a call of the template find the same documents and scores."""
    results = []
    for handler, body in (("_search", whole), ("_search/template", call)):
        answer = engine.request("POST", f"/{index}/{handler}", params=_WHOLE, body=body)
        what = "the proof of the search template"
        hits = SearchAnswer.read(answer, whole, what, scored=True).hits
        results.append(([hit["_id"] for hit in hits], [hit["_score"] for hit in hits]))
    (ids, scores), (others, near) = results
    return ids == others and np.allclose(near, scores, rtol=tolerance, atol=tolerance)


def _check_features(store: Store, stored: StoredModel) -> None:
    """Raise BadInput for a feature whose query depends on more than the texts of parameters."""
    for feature in stored.featureset.features if store.kind != "ltr-plugin" else ():
        if any(_LOGIC.search(TO_JSON.sub("", text)) for text in strings(feature.template)):
            raise BadInput(
                f"feature '{feature.name}' has a section or a part of an object, which only the "
                "LTR plugin fills in: write it with plain {{parameters}}"
            )


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
