"""`owpc-ltr models`: listed, switched, verified, deleted, and where a model comes from."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from owpc_ltr import save_dataset, save_model
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import SwitchGrounds
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, differences, provenance
from owpc_ltr.engine.evidence import LIVE, Evidence, SearchConfiguration
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.analysis import ScoreInterval
from owpc_ltr.protocols import Certificate as FitCertificate
from tests.commands import Run
from tests.engine.deployed import logged_dataset
from tests.engine.small_cluster import FEATURESET as SMALL_SET
from tests.engine.small_cluster import Small, linear


@pytest.fixture
def run(small: Small, monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """Runs commands against the node's own store."""
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    place = ("--store", small.store_name, "--store-kind", "plugin-free")

    def command(*words: str) -> tuple[int, str, str]:
        local = words[0] in {"train", "evaluate", "compare"} or "--query-id" in words
        return run(*words) if local else run(*words, *place)

    return Run(command)


def test_a_model_walks_from_challenger_to_champion_and_back(run: Run, small: Small) -> None:
    save_model(linear((1.0, 0.0, 0.0)), Path("one.json"))
    save_model(linear((1.0, 0.0, 0.5)), Path("two.json"))
    at = ("--index", small.index, "--featureset", "small", "--name", small.name)
    out = run.output("upload", "one.json", *at)
    assert out.startswith(f"stored {small.name}-")
    assert f"(plugin-free); alias '{small.name}' switched to it\n" in out
    assert "engine vs. local scores: 48 documents of 4 queries, largest difference" in out
    assert "since training: not known, for the model remembers no features" in out
    output = " ".join(out.split())
    live = f"owpc-ltr compare-live {small.name} --judgments FILE --store-kind plugin-free --store"
    assert f"nothing was compared: measure what users get by {live} {small.store_name}" in output
    assert "the application's query is not known, so that no later model can be shown" in output
    _, out, err = run("upload", "two.json", *at, "--as", "challenger", "--json")
    assert json.loads(out)["challenger"] == json.loads(out)["model"]
    assert err.splitlines()[0] == f"cluster: {small.engine.settings.url}"

    _, out, _ = run("models", "show", "--json")
    (alias,) = [p for p in json.loads(out)["aliases"] if p["name"] == small.name]
    assert alias["challenger"] != alias["current"]
    assert "CHALLENGER" in run("models", "show")[1]
    _, out, _ = run("models", "diff", small.name, f"{small.name}:challenger")
    assert "weight.size" in out
    assert "weight.title" not in out
    out = run.output("verify", f"{small.name}:challenger", "--index", small.index)
    assert f"'{alias['challenger']}' has not changed since it was uploaded" in out

    err = run.refusal(5, "models", "promote", small.name)
    assert f"users of '{small.name}' have '{alias['current']}', and would get another model" in err
    promote = ("models", "promote", small.name, "--unproven", "I looked")
    _, out, _ = run(*promote)
    own = small.store_name
    fetch = f"owpc-ltr request --model {small.name} --store-kind plugin-free --store {own}"
    held = "requests that hold a model still use"
    assert out == (
        f"alias '{small.name}' switched to {alias['challenger']}\n"
        f"{held} {alias['current']}: fetch them again: {fetch}\n"
    )
    assert f"'{small.name}' was switched without evidence: I looked\n" in run("models", "show")[1]
    before = run("request", "--model", small.name, "--index", small.index)[1]
    _, out, _ = run("models", "rollback", small.name)
    forward = f'models promote {alias["challenger"]} --unproven "REASON"'
    forward += f" --store-kind plugin-free --store {own}"
    assert out == (
        f"alias '{small.name}' switched to {alias['current']}\n"
        f"{held} {alias['challenger']}: fetch them again: {fetch}\n"
        f"to undo: owpc-ltr {forward}\n"
    )
    assert run(*fetch.split()[1:], "--index", small.index)[1] != before
    assert f"would be deleted: {alias['challenger']}" in run("models", "delete", "--unused")[1]
    err = run.refusal(5, "models", "delete", alias["current"], "--yes")
    assert "a model in use is not removed" in err
    assert run("models", "delete", "--unused", "--yes")[1] == f"deleted {alias['challenger']}\n"
    assert small.store.list_models() == [alias["current"]]
    _, out, _ = run("models", "show", small.name)
    assert "parity.largest_difference" in out
    assert re.search(r"FEATURE +WEIGHT\ntitle +1\n", out)
    assert run("models", "show", "one.json")[1].endswith(out[out.index("FEATURE") :])
    assert "promote another model first" in run.refusal(5, "models", "delete", alias["current"])
    _, out, _ = run("models", "delete", small.name)
    assert out == (
        f"would be deleted: {alias['current']}\nnothing was deleted yet: confirm with --yes\n"
    )
    _, out, _ = run("models", "delete", small.name, "--yes")
    assert out == f"deleted {alias['current']}\ndeleted the alias '{small.name}'\n"
    assert small.store.list_models() == []


def test_models_are_listed_with_their_stores_and_go_forward_again(run: Run, small: Small) -> None:
    at = ("--index", small.index, "--featureset", "small", "--name", small.name)
    for number in range(3):
        save_model(linear((1.0, 0.0, number / 8)), Path("one.json"))
        reason = ("--unproven", "a test") if number else ()
        assert run("upload", "one.json", *at, "--history", "1", *reason)[0] == 0
    _, out, _ = run("models", "show", "--json")
    listed = json.loads(out)
    (alias,) = listed["aliases"]
    assert (alias["store"], len(alias["previous"])) == (small.store.name, 1)
    _, out, _ = run("models", "show")
    place = rf"{small.store.name} \(plugin-free\)"
    assert re.search(rf"^{small.name} +{place} +{alias['current']} ", out, re.MULTILINE)
    assert out.endswith(f"unused: '{listed['unused'][0]}'\n")
    _, out, _ = run("models", "rollback", small.name)
    words = shlex.split(out.splitlines()[2].removeprefix("to undo: owpc-ltr "))
    assert run(*words[:5])[1].startswith(f"alias '{small.name}' switched to {alias['current']}\n")
    err = run.refusal(3, "upload", "one.json", "--index", "no-such-index", *at[2:])
    assert err.count("\n") == 2
    run.refusal(3, "verify", small.name, "--index", "no-such-index")


@pytest.mark.usefixtures("own_index")
def test_drift_is_one_line_and_exit_code_5(run: Run, small: Small) -> None:
    save_model(linear(), Path("one.json"))
    run("upload", "one.json", "--index", small.index, "--featureset", "small", "--name", small.name)
    triple = {"script": {"source": "ctx._source.size *= 3"}, "query": {"match_all": {}}}
    small.engine.request(
        "POST", f"/{small.index}/_update_by_query", params={"refresh": "true"}, body=triple
    )
    code, out, err = run("verify", small.name, "--index", small.index)
    assert code == 5
    assert "DRIFT" in out
    assert err.count("\n") == 1
    assert "has drifted since it was uploaded: feature 'size' drifted by" in err
    code, out, _ = run("verify", small.name, "--index", small.index, "--json")
    assert code == 5
    assert json.loads(out)["features"][0]["feature"] == "size"


def test_trained_models_replace_others_only_with_evidence(run: Run, small: Small) -> None:
    """From logged features to trees that the client scores, by the commands alone."""
    save_dataset(logged_dataset(small), Path("data.parquet"))
    words = ("--loss", "lambdarank", "--optimizer", "boosting", "--set", "optimizer.trees=20")
    run.output("train", "data.parquet", "--out", "trees.json", *words)
    at = ("--index", small.index, "--featureset", "small", "--name", small.name)
    save_model(replace(linear((0.0, 1.0, -1.0)), record=record_of("trees.json")), Path("poor.json"))
    run.output("upload", "poor.json", *at, "--query-template", "all-fields")
    trees = ("upload", "trees.json", "--client-scored", *at)
    err = run.refusal(5, *trees)
    remedy = (
        f"show that it is better: owpc-ltr compare-live trees.json {small.name} --judgments FILE"
    )
    place = f"--store-kind plugin-free --store {small.store_name}"
    assert f"{remedy} --out better.json {place} and then --require better.json" in err
    live = ("compare-live", "trees.json", small.name, "--judgments", "data.parquet")
    out = run.output(*live, "--judged-by", "people", "--out", "better.json", "--metric", "ndcg@10")
    assert "cannot tell: only" in out
    err = run.refusal(5, *trees, "--require", "better.json")
    assert "the verdict of the evidence is 'cannot tell: only" in err
    code, out, err = run(*trees, "--unproven", "documents at random, by their true grades")
    assert code == 0, err
    assert "the client scores it: stored model vs. local scores: " in out
    assert "without evidence: documents at random, by their true grades" in " ".join(out.split())
    assert "nothing was compared" not in out
    for index in ((), ("--index", small.index)):
        err = run.refusal(3, "search", "alpha beta", "--model", f"{small.name}x", *index)
        assert f"there is no model '{small.name}x' in the plugin-free store" in err
        assert err.endswith(f": did you mean '{small.name}'?\n")
    out = run.output("search", "alpha beta", "--index", small.index, "--model", small.name)
    assert "the client scored the window" in out
    err = run.refusal(5, "request", "--index", small.index, "--model", small.name)
    assert "scored by the client" in err
    _, out, err = run("verify", small.name, "--index", small.index)
    assert "stored model vs. local scores: " in out
    # Applications that send the template still have the model before.
    assert f"the search template '{small.name}' still serves" in err


def record_of(path: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(Path(path).read_text())["record"]
    return record


def test_the_ranker_that_is_pushed_into_the_workbench_is_the_request_of_applications(
    run: Run, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has no workbench: what would be put there is kept."""
    put: dict[str, Any] = {}
    asked = Engine.request

    def request(engine: Engine, method: str, path: str, **how: Any) -> Any:
        if path.startswith("/_plugins/_search_relevance/"):
            put[path.rpartition("/")[2]] = how["body"]
            return {"the_id": "1"}
        return asked(engine, method, path, **how)

    monkeypatch.setattr(Engine, "request", request)
    save_model(linear((1.0, -0.5, 0.0)), Path("one.json"))
    place = ("--index", small.index)
    run("upload", "one.json", *place, "--featureset", "small", "--name", small.name)
    Path("list.tsv").write_text("query_id\tquery\tdoc_id\tgrade\nq1\talpha beta\td1\t2\n")
    out = run.output("judge", "push", "list.tsv", "--name", "s", "--model", small.name, *place)
    assert "search configuration 1" in out
    configuration = put["search_configurations"]
    assert configuration["index"] == small.index
    body = json.loads(configuration["query"].replace("%SearchText%", "alpha beta"))
    assert body == json.loads(run("request", "alpha beta", "--model", small.name, *place)[1])
    assert small.engine.request("POST", f"/{small.index}/_search", body=body)["hits"]["hits"]


def test_an_upload_is_of_a_known_role_and_has_evidence_or_a_reason(run: Run, small: Small) -> None:
    save_model(linear(), Path("one.json"))
    at = ("upload", "one.json", "--index", small.index, "--name", small.name)
    assert "champion or challenger" in run.refusal(2, *at, "--as", "winner")
    assert "--unproven is empty: give the reason" in run.refusal(2, *at, "--unproven", " ")
    given = ("--unproven", "I looked", "--as", "challenger")
    assert "a challenger replaces nothing, and needs no --unproven" in run.refusal(2, *at, *given)
    assert small.store.list_models() == []


FIT = FitCertificate(2.5, 0.001, 0.0004, 7, 31, 2.0, 4.0, "gap within 0.001 of the gain")
FEATURESET = FeatureSet("movies", (Feature("a", ("keywords",), {"match_all": {}}),))


def deployment(**changes: Any) -> DeploymentRecord:
    record = {
        "loss": {"name": "owpc", "settings": {"generator": "top"}},
        "queries": 12,
        "validation": None,
        "certificate": FIT.as_dict(),
        "table": [{"optimizer.C": 1.0}],
    }
    made = DeploymentRecord(
        model="m-12345678",
        name="m",
        content={"feature_names": ["a", "b"], "weights": [1.0, 2.0]},
        featureset=FEATURESET,
        type="model/linear",
        index="movies",
        engine={"version": "3.8.0"},
        indices={"movies": {"uuid": "u"}},
        parity={"documents": 50},
        interval=ScoreInterval(0.0, 9.0, proven=True),
        record=record,
    )
    return replace(made, **changes)


def test_the_fit_is_told_with_why_it_stopped() -> None:
    facts = provenance(deployment())
    assert {name: facts[name] for name in facts if name.startswith("fit.")} == {
        "fit.objective": 2.5,
        "fit.risk": 2.0,
        "fit.gap": 0.001,
        "fit.relative_gap": 0.0004,
        "fit.passes": 7,
        "fit.stop_reason": "gap within 0.001 of the gain",
    }
    unknown = provenance(deployment(record={}))
    assert not [name for name in unknown if name.startswith(("fit", "loss"))]


def test_facts_are_those_of_the_record_and_of_the_proof() -> None:
    facts = provenance(deployment())
    assert facts["model"] == "m-12345678"
    assert (facts["loss.name"], facts["loss.settings.generator"]) == ("owpc", "top")
    assert (facts["queries"], facts["engine.version"]) == (12, "3.8.0")
    assert facts["indices.movies.uuid"] == "u"
    assert (facts["featureset"], facts["featureset_hash"]) == ("movies", FEATURESET.hash)
    assert (facts["parity.documents"], facts["interval.low"]) == (50, 0.0)
    # What is not known is no fact, and the candidates are no facts of this one.
    assert not {"validation", "seed"} & facts.keys()
    assert not [name for name in facts if name.startswith(("table", "switch"))]


def switched(**figures: Any) -> dict[str, Any]:
    """What a record has of a switch by evidence."""
    new = SearchConfiguration("m-12345678", "movies", "q", "new", 100)
    evidence = Evidence(
        new, replace(new, name="m-00000000", model="old"), LIVE,
        {"outcome": "better", "reasons": []}, figures, written="2026-11-28T12:00:00Z",
    )  # fmt: skip
    made = SwitchGrounds(evidence).as_dict("m-00000000")
    assert made is not None
    return made


def test_a_switch_is_told_with_its_evidence_or_the_reason_to_do_without() -> None:
    facts = provenance(deployment(switch=switched(metric="map", warnings=["few queries"])))
    assert {name: facts[name] for name in facts if name.startswith("switch.")} == {
        "switch.over": "m-00000000",
        "switch.verdict": "better",
        "switch.by": "live results",
        "switch.written": "2026-11-28T12:00:00Z",
        "switch.metric": "map",
    }
    unproven = SwitchGrounds(unproven="I looked").as_dict("m-00000000")
    facts = provenance(deployment(switch=unproven))
    assert (facts["switch.over"], facts["switch.unproven"]) == ("m-00000000", "I looked")


def test_differences_are_named_on_both_sides_with_the_weights_of_linear_models() -> None:
    assert differences(deployment(), deployment()) == []
    other = deployment(
        model="m-87654321",
        content={"feature_names": ["a", "c"], "weights": [1.0, 3.0]},
        switch={"over": "m-12345678", "unproven": "I looked"},
    )
    assert differences(deployment(), other) == [
        ("model", "m-12345678", "m-87654321"),
        ("weight.b", 2.0, None),
        ("switch.over", None, "m-12345678"),
        ("switch.unproven", None, "I looked"),
        ("weight.c", None, 3.0),
    ]
    trees = deployment(content={"trees": []})
    assert [name for name, *_ in differences(deployment(), trees)] == ["weight.a", "weight.b"]


def test_a_search_without_a_model_is_that_of_the_query_or_of_the_only_model(
    run: Run, small: Small
) -> None:
    search = ("search", "alpha gamma", "--index", small.index)
    code, out, err = run(*search)
    assert (code, out.split("\n")[0].split()) == (0, ["#", "QUERY", "ALONE", "SCORE"])
    assert "this is the engine's own order: no model is uploaded" in err
    save_model(linear((1.0, 0.0, 0.0)), Path("one.json"))
    upload = ("upload", "one.json", "--index", small.index, "--featureset", "small")
    assert run(*upload, "--name", small.name)[0] == 0
    code, out, err = run(*search)
    assert (code, f"WITH {small.name}-" in out, "own order" in err) == (0, True, False)
    assert run(*upload, "--name", f"{small.name}-b")[0] == 0
    code, out, err = run(*search, "--json")
    assert (code, json.loads(out)["model"]) == (0, None)
    assert f"no model is named (--model: {small.name}, {small.name}-b)" in err
    assert run(*search, "--explain")[0] == 2


def test_a_wrong_feature_set_is_told_with_the_one_that_the_model_was_trained_on(
    run: Run, small: Small
) -> None:
    small.store.put_featureset(FeatureSet("fewer", SMALL_SET.features[:2]))
    save_model(linear((1.0, 0.0, 0.0)), Path("one.json"))
    upload = ("upload", "one.json", "--index", small.index, "--name", small.name)
    err = run.refusal(2, *upload, "--featureset", "fewer")
    assert "'fewer' is not the one that the model was trained on, which is 'small'" in err
    assert "give that as --featureset" in err
    assert run(*upload, "--featureset", "small")[0] == 0


def test_data_of_another_feature_set_are_told_with_the_set_to_log_them_with(
    run: Run, small: Small
) -> None:
    fewer = FeatureSet("fewer", SMALL_SET.features[:2])
    whole = logged_dataset(small)
    data = replace(
        whole, features=whole.features[:, :2].copy(), feature_names=fewer.feature_names,
        featureset_hash=fewer.hash, manifest={"featureset": {"name": "fewer"}},
    )  # fmt: skip
    save_dataset(data, "fewer.parquet")
    save_dataset(whole, "whole.parquet")
    save_model(linear((1.0, 0.0, 0.0)), Path("one.json"))
    said = f"it was logged with 'fewer', hash {fewer.hash[:12]}: log the data with"
    own = ("--data", "fewer.parquet")
    for words in (
        ("evaluate", "one.json", *own),
        ("compare", "one.json", "feature:title", *own),
        ("explain", "one.json", *own, "--query-id", "q1"),
        ("upload", "one.json", "--index", small.index, *own),
    ):
        code, _, err = run(*words)
        right = (
            "'small' (owpc-ltr log-features --featureset small)"
            if words[0] == "upload"
            else "the model"
        )
        assert (code, f"{said} {right}" in err) == (3, True), err
    code, _, err = run("train", "whole.parquet", "--validation", "fewer.parquet", "--out", "m.json")
    assert (code, "'fewer'" in err) == (3, True), err
