"""Search templates: stored by an upload, switched and deleted with the alias that they serve."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning, save_model
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_lifecycle import delete, promote, prunable, prune, roll_back
from owpc_ltr.engine.deployment.model_upload import Uploaded, UploadRequest, upload_model
from owpc_ltr.engine.search.request import SearchRequest, request_body
from owpc_ltr.errors import BadInput, EngineUnavailable, Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.engine.deployed import UNPROVEN, liar, put, put_beside, state, unchecked
from tests.engine.small_cluster import Small, Through, linear, probes

QUERY = {
    "bool": {
        "must": {"multi_match": {"query": "{{keywords}}", "fields": ["title", "body"]}},
        "filter": "{{#toJson}}filters{{/toJson}}",
    }
}
AWKWARD = 'say "hi" \\ {{x}}\nalpha'


@pytest.fixture
def small(small: Small) -> Iterator[Small]:
    yield small
    for name in scripts(small):
        small.engine.request("DELETE", f"/_scripts/{name}")


def scripts(small: Small) -> list[str]:
    """The scripts of the node that belong to the name or its models."""
    metadata = small.engine.request("GET", "/_cluster/state/metadata")["metadata"]
    return [name for name in metadata.get("stored_scripts", {}) if name.startswith(small.name)]


def search(small: Small, query: dict[str, Any] | None = None, **more: Any) -> SearchRequest:
    params = {"keywords": "{{keywords}}", "query": "{{keywords}}", **more.pop("params", {})}
    return SearchRequest(small.index, query or QUERY, params, **more)


def source(small: Small, script: str) -> str:
    script = small.engine.request("GET", f"/_scripts/{script}")["script"]
    return str(cast("dict[str, Any]", script)["source"])


def template(small: Small, model: str) -> str:
    """The template of a model, from its deployment record."""
    record = DeploymentRecords(small.engine, small.store).get(model)
    return str((record.search_template or {})["source"])


def upload(small: Small, *weights: float, **options: Any) -> Uploaded:
    return put(small, linear(weights or (1.0, 0.5, -0.2)), search=search(small), **options)


def three(small: Small, **options: Any) -> list[str]:
    """The models of three uploads with search templates, the last one the champion."""
    return [upload(small, 1.0, step / 8, 0.0, **options).model for step in range(3)]


@dataclass
class Watched(Through):
    """An engine that does something before requests of a method and path, or in their place."""

    method: str
    path: str
    act: Callable[[], None]

    def request(self, method: str, path: str, **given: Any) -> Any:
        if method in self.method.split() and re.search(self.path, path):
            self.act()
        return self.engine.request(method, path, **given)


def through(small: Small, method: str, path: str, act: Callable[[], None]) -> Small:
    engine = cast("Engine", Watched(small.engine, method, path, act))
    return replace(small, engine=engine, store=small.store_through(engine))


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def answers(small: Small, model: str, params: dict[str, Any]) -> list[list[tuple[str, float]]]:
    """The hits of the whole request with a model, and those of the alias's template."""
    interval = DeploymentRecords(small.engine, small.store).get(model).interval
    size = params.get("size", 10)
    request = search(small, params={**params, "query": params["keywords"]}, size=size)
    rest = {"from": params["from"]} if "from" in params else {}
    whole = request_body(
        small.store, small.store.get_model(model), replace(request, rest=rest), interval
    )
    call = {"id": small.name, "params": params}
    lists = []
    for path, body in (("_search", whole), ("_search/template", call)):
        hits = small.engine.request("POST", f"/{small.index}/{path}", body=body)["hits"]["hits"]
        lists.append([(hit["_id"], hit["_score"]) for hit in hits])
    return lists


def test_a_template_gives_the_results_of_the_whole_request(small: Small) -> None:
    done = upload(small)
    assert done.search_template == small.name
    for params in (
        {"keywords": "alpha gamma", "filters": []},
        {"keywords": AWKWARD, "filters": [], "size": 60},
        {"keywords": "beta", "filters": [{"range": {"size": {"gte": 4}}}], "size": 5, "from": 5},
    ):
        whole, by_template = answers(small, done.model, params)
        assert len(whole) >= 5, params
        assert by_template == whole, params


def test_parameters_of_features_and_of_the_application_have_their_own_kinds(small: Small) -> None:
    """Texts in strings, bare numbers, and lists."""
    least = '{"range": {"size": {"gte": {{least}} }}}'
    titles = '{"terms": {"title": {{#toJson}}titles{{/toJson}} }}'
    featureset = FeatureSet(
        "kinds",
        (
            Feature("title", ("query",), {"match": {"title": "{{query}}"}}),
            Feature("least", ("least",), least),
            Feature("titles", ("titles",), titles),
        ),
    )
    small.store.put_featureset(featureset)
    queries = [
        {**probe, "params": {"query": words, "least": 3.5, "titles": ["alpha", "beta"]}}
        for probe in probes()
        for words in probe["params"].values()
    ]
    model = replace(
        linear((1.0, 0.5, 2.0), probes=queries, featureset_hash=featureset.hash),
        feature_names=featureset.feature_names,
    )
    query = {
        "bool": {
            "must": {"match": {"body": "{{query}}"}},
            "filter": {"range": {"size": {"lte": "{{most}}"}}},
        }
    }
    request = search(small, query, params={"most": 8}, size=7, rest={"_source": False})
    named = UploadRequest(model, featureset, index=small.index, name=small.name, search=request)
    done = upload_model(small.engine, small.store, named)
    text = source(small, small.name)
    assert '"lte":"{{most}}"' in text
    assert '"gte":{{least}}}' in text
    assert '"title":{{#toJson}}titles{{/toJson}}' in text
    assert '"size":{{size}}{{^size}}7{{/size}}' in text
    assert "{{query}}" not in text
    own = {"most": 8, "least": 3.5, "titles": ["alpha", "beta"]}
    call = small.cluster.models.search_template(small.name)
    shown = {"keywords": "{{keywords}}", **own, "from": 0, "size": 7}
    assert call == {"id": small.name, "params": shown}
    params: dict[str, Any] = {"keywords": "beta zeta", "query": "beta zeta", **own}
    interval = DeploymentRecords(small.engine, small.store).get(done.model).interval
    stored = small.store.get_model(done.model)
    whole = request_body(small.store, stored, replace(request, params=params), interval)
    del params["query"]
    path = f"/{small.index}/_search"
    hits = [
        small.engine.request("POST", each, body=body)["hits"]["hits"]
        for each, body in (
            (path, whole), (f"{path}/template", {"id": small.name, "params": params})
        )
    ]  # fmt: skip
    assert len(hits[0]) == 7
    assert hits[0] == hits[1]


def test_a_switch_replaces_the_template_and_a_rollback_restores_it_byte_for_byte(
    small: Small,
) -> None:
    models = three(small)
    texts = [template(small, model) for model in models]
    assert len(set(texts)) == 3
    assert source(small, small.name) == texts[2]
    small.cluster.models.rollback(small.name)
    assert source(small, small.name) == texts[1]
    roll_back(small.engine, small.store, small.name)
    assert source(small, small.name) == texts[0]
    promote(small.engine, small.store, models[2], UNPROVEN)
    assert source(small, small.name) == texts[2]
    Aliases(small.engine, small.store).switch(small.name, models[1], check=unchecked)
    assert source(small, small.name) == texts[1]
    assert small.cluster.verify(small.name).drift == ()


def test_a_challenger_has_a_template_of_its_own_until_it_is_promoted(small: Small) -> None:
    champion = upload(small, 1.0, 0.0, 0.0)
    before = source(small, small.name)
    challenger = upload(small, 0.0, 1.0, 0.0, role="challenger")
    assert challenger.search_template is None
    assert source(small, small.name) == before == template(small, champion.model)
    assert small.cluster.models.search_template(f"{small.name}:challenger") is None
    promote(small.engine, small.store, small.name, UNPROVEN)
    assert source(small, small.name) == template(small, challenger.model) != before


def test_after_a_kill_between_alias_and_template_the_next_command_completes_the_switch(
    small: Small,
) -> None:
    """Until then the template serves the model before, which nothing deletes."""
    first, second, third = three(small, history=0)
    dying = through(small, "PUT", f"/_scripts/{small.name}$", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        promote(dying.engine, dying.store, first, UNPROVEN)
    alias = Aliases(small.engine, small.store).find(small.name)
    assert alias is not None
    assert alias.models == {first}
    assert source(small, small.name) == template(small, third)
    (drift,) = small.cluster.verify(small.name).drift
    assert drift == (
        f"the search template '{small.name}' still serves '{third}': owpc-ltr models promote "
        f"{first} restores it"
    )
    prune(small.engine, small.store, [second])
    with pytest.raises(Refused, match="applications still get"):
        prune(small.engine, small.store, [third])
    assert promote(small.engine, small.store, small.name, UNPROVEN).current == first
    assert source(small, small.name) == template(small, first)
    assert small.cluster.verify(small.name).drift == ()
    with pytest.raises(Refused, match="no challenger to promote"):
        promote(small.engine, small.store, small.name, UNPROVEN)


def test_a_rollback_that_was_killed_is_completed_and_does_not_go_two_models_back(
    small: Small,
) -> None:
    _first, second, _third = three(small)
    fault = EngineUnavailable("no answer")
    failing = through(small, "PUT", f"/_scripts/{small.name}$", raising(fault))
    with pytest.raises(EngineUnavailable, match=f"models promote {second}$"):
        roll_back(failing.engine, failing.store, small.name)
    assert roll_back(small.engine, small.store, small.name).current == second
    assert source(small, small.name) == template(small, second)


def test_an_upload_whose_template_did_not_follow_keeps_its_model(small: Small) -> None:
    three(small)
    fault = EngineUnavailable("no answer")
    failing = through(small, "PUT", f"/_scripts/{small.name}$", raising(fault))
    with pytest.raises(EngineUnavailable, match="complete the switch"):
        put_beside(small, linear((0.0, 0.0, 1.0)), failing.engine, search=search(small))
    alias = Aliases(small.engine, small.store).find(small.name)
    assert alias is not None
    assert alias.current in small.store.list_models()
    again = upload(small, 0.0, 0.0, 1.0)
    assert again.model == alias.current
    assert source(small, small.name) == template(small, again.model)


def test_what_another_tool_writes_during_a_switch_is_not_replaced(small: Small) -> None:
    models = three(small)
    other = {"script": {"lang": "mustache", "source": '{"size": 3}'}}

    def write() -> None:
        small.engine.request("PUT", f"/_scripts/{small.name}", body=other)

    disturbed = through(small, "PUT", "/_doc/", write)
    with pytest.raises(Refused, match=r"but the script .* was not stored by owpc-ltr"):
        promote(disturbed.engine, disturbed.store, models[0], UNPROVEN)
    assert source(small, small.name) == '{"size": 3}'
    (drift,) = small.cluster.verify(small.name).drift
    assert "was not stored by owpc-ltr, or was changed since" in drift
    with pytest.raises(Refused, match="was not stored by owpc-ltr"):
        promote(small.engine, small.store, models[1], UNPROVEN)


def test_two_switches_at_the_same_time_leave_the_template_of_the_alias(small: Small) -> None:
    """The second one comes before the first one reads the script, and before it writes it."""
    models = three(small)
    for method in ("GET", "PUT"):
        seen: list[str] = []

        def switch(seen: list[str] = seen) -> None:
            alias = Aliases(small.engine, small.store).find(small.name)
            assert alias is not None
            if alias.current == models[0] and not seen:
                seen.append(alias.current)
                promote(small.engine, small.store, models[1], UNPROVEN)

        disturbed = through(small, method, f"/_scripts/{small.name}$", switch)
        promote(disturbed.engine, disturbed.store, models[0], UNPROVEN)
        assert seen
        assert source(small, small.name) == template(small, models[1])
        assert small.cluster.verify(small.name).drift == ()
        promote(small.engine, small.store, models[2], UNPROVEN)


def test_a_script_that_owpc_ltr_did_not_make_is_refused_before_anything_is_stored(
    small: Small,
) -> None:
    body = {"script": {"lang": "mustache", "source": '{"query": {"match_all": {}}}'}}
    small.engine.request("PUT", f"/_scripts/{small.name}", body=body)
    with pytest.raises(Refused, match="was not stored by owpc-ltr"):
        upload(small)
    assert state(small) == (None, [], [])
    assert source(small, small.name) == body["script"]["source"]
    # Without a template of its own the name is as good as any, and its deletion leaves the script.
    put(small, linear())
    delete(small.engine, small.store, small.name)
    assert scripts(small) == [small.name]


@pytest.mark.parametrize("methods", ["PUT", "PUT GET DELETE"])
def test_an_account_without_the_right_to_store_scripts_keeps_the_whole_request(
    small: Small, methods: str
) -> None:
    closed = through(small, methods, "/_scripts/", raising(NotAllowed("no rights (403)")))
    with pytest.warns(OwpcLtrWarning, match=r"no search template is stored.*no rights \(403\)"):
        done = put(closed, linear(), search=search(small))
    assert done.search_template is None
    assert state(small) == (done.alias, [done.model], [True])
    assert scripts(small) == []
    assert small.cluster.models.search_template(small.name) is None


def test_an_account_that_cannot_switch_a_template_is_told(small: Small) -> None:
    models = three(small)
    closed = through(small, "PUT GET DELETE", "/_scripts/", raising(NotAllowed("no rights (403)")))
    with pytest.warns(OwpcLtrWarning, match=r"was not switched: no rights \(403\)"):
        assert roll_back(closed.engine, closed.store, small.name).current == models[1]
    assert "still serves" in small.cluster.verify(small.name).drift[0]


def test_a_request_that_is_too_large_for_a_template_is_told(small: Small) -> None:
    words = {"terms": {"title": [f"word{number:06}" for number in range(8000)]}}
    query = {"bool": {"must": {"match": {"title": "{{keywords}}"}}, "should": words}}
    with pytest.warns(OwpcLtrWarning, match=r"exceeded max allowed stored script size.*; raise"):
        done = put(small, linear(), search=search(small, query))
    assert done.search_template is None
    assert scripts(small) == []


def test_a_placeholder_that_nobody_fills_in_is_named_before_anything_is_stored(
    small: Small,
) -> None:
    query = {"bool": {"must": QUERY, "filter": {"range": {"size": {"gte": "{{least}}"}}}}}
    with pytest.raises(BadInput, match=r"no value for '\{\{least\}\}': give it as a parameter"):
        put(small, linear(), search=search(small, query))
    assert state(small) == (None, [], [])
    assert put(small, linear(), search=search(small, query, params={"least": 1})).search_template


def test_an_upload_without_the_query_of_applications_does_not_leave_them_behind(
    small: Small,
) -> None:
    done = upload(small, 1.0, 0.0, 0.0)
    with pytest.raises(Refused, match="give their query with `query_template`"):
        put(small, linear((0.0, 1.0, 0.0)))
    assert state(small)[1] == [done.model]
    # The same model has its template still.
    assert put(small, linear((1.0, 0.0, 0.0))).search_template == small.name


def test_a_model_that_the_client_scores_has_no_template(small: Small) -> None:
    former = upload(small)
    by_client = linear((0.0, 1.0, 0.0))
    with pytest.warns(OwpcLtrWarning, match=f"still serves '{former.model}'"):
        done = put(small, by_client, search=search(small), client_scored=True)
    assert done.search_template is None
    assert "as requested; so it has no search template\n" in str(done)
    assert source(small, small.name) == template(small, former.model)
    (drift,) = small.cluster.verify(small.name).drift
    assert f"'{done.model}' has none: upload it again with `query_template`" in drift


def test_a_template_that_ranks_otherwise_than_the_request_is_refused(small: Small) -> None:
    """Here another tool changes the stored template just before it is proved."""
    upload(small, 1.0, 0.0, 0.0)
    before = scripts(small), state(small)

    def change() -> None:
        for name in set(scripts(small)) - set(before[0]):
            text = source(small, name).replace('"title"', '"body"')
            body = {"script": {"lang": "mustache", "source": text}}
            small.engine.request("PUT", f"/_scripts/{name}", body=body)

    disturbed = through(small, "POST", "/_search/template$", change)
    with pytest.raises(Refused, match="does not rank as the whole request"):
        put_beside(small, linear((3.0, 0.5, 0.0)), disturbed.engine, search=search(small))
    assert (scripts(small), state(small)) == before


def test_features_with_sections_keep_the_whole_request(small: Small) -> None:
    template = '{"match": {"title": "{{#keywords}}{{keywords}}{{/keywords}}"}}'
    featureset = FeatureSet("sections", (Feature("title", ("keywords",), template),))
    small.store.put_featureset(featureset)
    record = {**linear().record, "featureset_hash": featureset.hash}
    model = LinearModel(("title",), np.ones(1), record=record)
    request = UploadRequest(
        model, featureset, index=small.index, name=small.name, search=search(small)
    )
    with pytest.warns(OwpcLtrWarning, match="feature 'title' has a section"):
        done = upload_model(small.engine, small.store, request)
    assert (done.search_template, scripts(small)) == (None, [])


def test_a_template_is_deleted_with_its_alias_only(small: Small) -> None:
    models = three(small, history=1)
    before = source(small, small.name)
    with pytest.raises(Refused, match="engine scores"):
        put(liar(small), linear((5.0, 0.0, 0.0)), search=search(small))
    assert prunable(small.engine, small.store) == [models[0]]
    delete(small.engine, small.store, models[0])
    assert scripts(small) == [small.name]
    assert source(small, small.name) == before
    delete(small.engine, small.store, small.name)
    assert scripts(small) == []


def test_the_commands_show_the_template_first(
    small: Small, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    at = ("--store", small.store_name, "--store-kind", "plugin-free")
    body_of = {"query": QUERY, "size": 5, "from": "{{from}}", "_source": ["title"]}
    Path("query.json").write_text(json.dumps(body_of))
    models: list[str] = []
    for number in (1.0, 2.0):
        save_model(linear((number, 0.5, 0.0)), Path("one.json"))
        code, out, _ = run(
            "upload", "one.json", "--index", small.index, "--featureset", "small",
            "--name", small.name, "--query-template", "query.json",
            *(("--unproven", "a test") if models else ()), *at,
        )  # fmt: skip
        assert code == 0
        assert f"\nsearch template '{small.name}': owpc-ltr request --model " in out
        models.append(out.split()[1].rstrip(";"))
    command = ("request", "alpha", "--model", small.name, "--query-template", "query.json")
    _, out, _ = run(*command, "--param", "filters=[]", *at)
    call, whole = out.split(f"\n\nPOST /{small.index}/_search\n")
    first, _, body = call.partition("\n")
    assert first == f"POST /{small.index}/_search/template"
    params = {"keywords": "alpha", "filters": [], "from": 0, "size": 5}
    assert json.loads(body) == {"id": small.name, "params": params}
    assert json.loads(run(*command, "--param", "filters=[]", "--json", *at)[1]) == json.loads(whole)
    _, out, _ = run("models", "rollback", small.name, *at)
    assert f"search template '{small.name}' serves it: its calls stay as they are" in out
    assert "requests that hold a model still use" in out
    assert source(small, small.name) == template(small, models[0])
    small.engine.request("DELETE", f"/_scripts/{small.name}")
    err = run.refusal(5, "verify", small.name, *at)
    assert f"the search template '{small.name}' is gone: owpc-ltr models promote" in err
