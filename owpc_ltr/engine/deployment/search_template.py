"""Search templates: requests with a model that are stored in the cluster; applications name them.

An application sends `POST /INDEX/_search/template` with the name of an alias as the id, and the
user's words as a parameter. The deployment record of a model has the text of its template, which
the upload has proved. The script of an alias is that of its model, byte for byte, and every switch
of the alias replaces it.

An alias is written under a version, and a script has none. So the alias is switched first, and its
script follows:

- A command that ends in between leaves applications with the model before, which was proved, and is
  not deleted while a script serves it. `verify` names it. Any later switch of the alias, or the
  same command again, completes the switch, since the script follows what the alias is set to then.
  In the other order, applications would get a model whose upload may still fail and remove it.
- Of two commands at the same time the version of the alias refuses one. If both succeed in turn,
  each reads the alias again after it has written the script: the last one to write has read the
  last switch.
- A deletion removes the script before the alias, so that none serves a model that is gone.

A script of owpc-ltr begins with a comment: the store, the model and a digest of the rest. Any other
script, or one that another tool has changed, is left alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from owpc_ltr.engine.client.engine import Engine, answer_if_found, to_json
from owpc_ltr.engine.client.responses import (
    EngineRefusal,
    NotAllowed,
    SearchAnswer,
    check_acknowledged,
)
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, Refused, give_warning, give_warnings
from owpc_ltr.features.mustache import TO_JSON, is_structure, strings, variables
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.analysis import ScoreInterval
from owpc_ltr.names import check_name

_MARK = re.compile(r"\{\{! owpc-ltr (\S+) (\S+) ([0-9a-f]{16}) \}\}")


class _Script(NamedTuple):
    """A script, and the model that it serves: None where it is not as owpc-ltr wrote it."""

    source: str
    model: str | None


class SearchTemplates:
    """The search templates of a store's models, and the scripts of its aliases."""

    def __init__(self, engine: Engine, store: Store) -> None:
        """Use the scripts of the cluster behind `engine`, for the models of `store`."""
        self._engine, self._store = engine, store
        self._place = f"{store.kind}/{store.name}" if store.name else store.kind

    def of_model(self, model: str) -> dict[str, Any] | None:
        """The template of a model, `source` and `params`, if it has one."""
        # Without a record, or with a damaged one, a model can be switched to nevertheless.
        with suppress(BadInput):
            record = DeploymentRecords(self._engine, self._store).find(model, whole=False)
            return record.search_template if record else None
        return None

    def serving(self, alias: str) -> str | None:
        """The model that the script of an alias serves, if there is one that may be read."""
        with suppress(NotAllowed):
            script = self._find(alias)
            return script.model if script else None
        return None

    def check(self, alias: str, *, needed: bool) -> None:
        """Raise Refused, before an upload, where a template is or is not `needed`.

        One is needed, and the name is that of another tool's script; or none is, and applications
        send the one of the former model.
        """
        with suppress(NotAllowed):
            script, option = self._find(alias), "`query_template`"
            if needed and script and script.model is None:
                raise Refused(
                    f"{_not_ours(alias)}: delete it, choose another name with "
                    f"`name`, or leave out {option}"
                )
            if not needed and script and script.model:
                raise Refused(
                    f"applications may send the search template '{alias}', which would keep the "
                    f"former model: give their query with {option}, or delete the script first"
                )

    def follow(self, name: str, model: str) -> bool:
        """Make the script of an alias the template of its model; not that of another tool.

        Returns whether it could. Warns where the cluster or the account takes none.
        """
        template = self.of_model(model)
        source = template["source"] if template else None
        try:
            script = self._find(name)
            if source and (script is None or (script.model and script.source != source)):
                self.put(name, source)
        except (EngineRefusal, NotAllowed) as refusal:
            give_warning(
                f"the search template '{name}' was not switched: {refusal}; applications that "
                f"send it keep its model: complete the switch by owpc-ltr models promote {model}"
            )
            return False
        return True

    def remove(self, name: str) -> None:
        """Delete the script of this name, if it is of owpc-ltr."""
        if self.serving(name) is not None:
            self.delete(name)

    def delete(self, name: str) -> None:
        """Delete the script of this name; nothing happens where there is none."""
        what = f"the deletion of the search template '{name}'"
        answer = answer_if_found(self._engine, "DELETE", _path(name), what)
        if answer is not None:
            check_acknowledged(answer.value, what)

    def drift(self, name: str, model: str) -> str | None:
        """How the script of an alias differs from what it should be; None if it does not."""
        template = self.of_model(model)
        try:
            script = self._find(name)
        except NotAllowed:
            return None
        serves = f"the search template '{name}' still serves '{script and script.model}'"
        restore = f"owpc-ltr models promote {model} restores it"
        if template is None:
            if script is None or script.model in {None, model}:
                return None
            return (
                f"{serves}, and '{model}' has none: upload it again with `query_template`, or "
                f"delete the script '{name}' when no application sends it"
            )
        if script is None:
            return f"the search template '{name}' is gone: {restore}"
        if script.model is None:
            return f"{_not_ours(name)}: delete it, and {restore}"
        return None if script.source == template["source"] else f"{serves}: {restore}"

    def put(self, name: str, source: str) -> None:
        """Store a script; it replaces an earlier one."""
        body = {"script": {"lang": "mustache", "source": source}}
        answer = self._engine.request("PUT", _path(name), body=body)
        check_acknowledged(answer, f"the search template '{name}'")

    def signed(self, model: str, text: str) -> str:
        """The text of a model's template as owpc-ltr stores it."""
        return f"{{{{! owpc-ltr {self._place} {model} {_digest(text)} }}}}{text}"

    def _find(self, name: str) -> _Script | None:
        answer = answer_if_found(self._engine, "GET", _path(name), f"the script '{name}'")
        if answer is None:
            return None
        source = answer["script"]["source"].text
        mark = _MARK.match(source)
        ours = mark and mark[1] == self._place and mark[3] == _digest(source[mark.end() :])
        return _Script(source, mark[2] if mark and ours else None)


def _path(name: str) -> str:
    return f"/_scripts/{check_name('search template', name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _not_ours(name: str) -> str:
    return f"the script '{name}' in the cluster was not stored by owpc-ltr, or was changed since"


_LOGIC = re.compile(r"\{\{\s*[#^]|\{\{[^{}]*\.")
"""A section, or a part of an object: what a feature makes of it depends on the value."""
_AWKWARD = ' say "hi" \\ {{x}}\nline'
_PROVED = 20
"""Queries of a proof."""
_WHOLE = {"allow_partial_search_results": "false", "preference": "owpc-ltr"}
"""The same copies of all shards answer both searches of a proof."""
_FIRST_NUMBER = 713_000_000_000_000


def with_keywords(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, with the user's words under both names that queries use."""
    text = next((value for value in params.values() if isinstance(value, str)), "")
    return {"keywords": text, "query": text, **params}


def _template_text(
    store: Store, stored: StoredModel, search: SearchRequest, interval: ScoreInterval
) -> tuple[str, dict[str, Any]]:
    """The whole request with a model as mustache, and its parameters.

    A tag stands inside strings, and a parameter that is no text has its place outside them: the
    request is built with an unusual number or list, and the tag takes its place in the text.

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
        tags[to_json(places[name])] = tag
    body = request_body(store, stored, replace(search, params=places), interval)
    numbers = {"from": int(body.pop("from", 0)), "size": body.pop("size")}
    shown |= numbers
    text = to_json(body)
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
                    "the search template does not rank as the whole request does for "
                    f"'{query.params['keywords']}'"
                )
    except (EngineRefusal, NotAllowed, BadInput) as why:
        give_warnings(
            [f"no search template is stored, and applications send the whole request: {why}"]
        )
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
