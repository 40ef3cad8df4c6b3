"""`featureset push` stores no set that would match nothing, and says how to give parameters."""

from __future__ import annotations

import contextlib
import json
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.feature_sets import FeatureSets
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet, named_params, plain_params
from tests.commands import Run
from tests.engine.fake_engine import FakeEngine, Reply

MAPPINGS = {
    "properties": {
        "title": {"type": "text", "fields": {"english": {"type": "text"}}},
        "votes": {"type": "integer"},
        "tags": {"type": "keyword"},
        "name": {"type": "alias", "path": "title"},
        "cast": {"type": "nested", "properties": {"actor": {"type": "text"}}},
    }
}


def featureset_of(template: Any, *params: str, name: str = "f") -> FeatureSet:
    return FeatureSet("set", (Feature(name, params, template),))


TYPO = featureset_of({"match": {"titel": "{{keywords}}"}}, "keywords", name="title_bm25")
FACTOR = {"field": "vots", "missing": 0}


@dataclass(frozen=True)
class Place:
    """An index on a real node, and the feature sets of a store of its own."""

    engine: Engine
    index: str
    store: str
    featuresets: FeatureSets


@pytest.fixture(scope="module")
def place(node_url: str) -> Iterator[Place]:
    engine, own = Engine(ConnectionSettings(node_url)), uuid.uuid4().hex[:8]
    engine.request("PUT", f"/push-{own}", body={"mappings": MAPPINGS})
    document = {"title": "alien", "votes": 3, "tags": ["a"], "cast": [{"actor": "weaver"}]}
    engine.request("PUT", f"/push-{own}/_doc/1", params={"refresh": "true"}, body=document)
    yield Place(engine, f"push-{own}", own, Cluster(engine, "plugin-free", own).featuresets)
    for path in (f"/push-{own}", f"/owpc-ltr-store-{own}"):
        with contextlib.suppress(EngineRefusal):
            engine.request("DELETE", path)
    engine.close()


@pytest.mark.parametrize(
    ("featureset", "said"),
    [
        (TYPO, "feature 'title_bm25': 'titel' is not a field of '{}'; did you mean 'title'?"),
        (featureset_of({"function_score": {"field_value_factor": FACTOR, "boost_mode": "replace"}}),
         "'vots' is not a field of '{}'; did you mean 'votes'?"),
        (featureset_of({"multi_match": {"query": "x", "fields": ["title.enlish^2"]}}),
         "did you mean 'title.english'?"),
        (featureset_of({"multi_match": {"query": "x", "fields": ["tite*"]}}), "is called 'tite*'"),
        (featureset_of({"nested": {"path": "casts", "query": {"match_all": {}}}}),
         "'casts' is not a nested object of '{}'; did you mean 'cast'?"),
        (featureset_of({"match": {"cast": "x"}}),
         "'cast' is not a field of '{}' but an object; did you mean 'cast.actor'?"),
        (featureset_of({"match": {"zzzzzzzz": "x"}}), "push it all the same with `allow_unmapped`"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_there_is_refused_and_nothing_is_stored(
    featureset: FeatureSet, said: str, place: Place
) -> None:
    with pytest.raises(BadInput) as error:
        place.featuresets.push(featureset, index=place.index)
    assert said.format(place.index) in str(error.value)
    assert "set" not in place.featuresets.names()


def test_every_fault_is_named_up_to_eight_and_the_others_counted(place: Place) -> None:
    many = FeatureSet(
        "set", tuple(Feature(f"f{n}", (), {"match": {f"titel{n}": "x"}}) for n in range(10))
    )
    with pytest.raises(BadInput, match=r"'f0'.*'f7'.*; and 2 more$") as error:
        place.featuresets.push(many, index=place.index)
    assert "'f8'" not in str(error.value)


def test_what_the_mapping_has_is_stored(place: Place) -> None:
    good = FeatureSet(
        "good",
        (
            Feature("a", ("keywords",), {"match": {"name": "{{keywords}}"}}),
            Feature("b", (), {"multi_match": {"query": "x", "fields": ["titl*", "title.english"]}}),
            Feature("c", (), {"nested": {"path": "cast", "query": {"match": {"cast.actor": "x"}}}}),
            Feature("d", (), {"script_score": {"query": {"exists": {"field": "cast"}},
                                               "script": {"source": "doc['votes'].size()"}}}),
            Feature("e", ("lang",), {"match": {"title_{{lang}}": "x"}}),
            Feature("f", (), {"term": {"_id": "1"}}),
        ),
    )  # fmt: skip
    place.featuresets.push(good, index=place.index, replace=True)
    assert place.featuresets.get("good") == good


def test_random_scores_without_a_seed_are_warned_of(place: Place) -> None:
    seeded = {"seed": 1, "field": "votes"}
    for name, drawn, warned in (("dice", {}, True), ("fixed", seeded, False)):
        template = {"function_score": {"random_score": drawn, "boost_mode": "replace"}}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            place.featuresets.push(
                FeatureSet(name, (Feature(name, (), template),)), index=place.index
            )
        lines = [
            str(warning.message) for warning in caught if "random_score" in str(warning.message)
        ]
        assert bool(lines) == warned
        assert not warned or "'dice': random_score without a seed gives other values" in lines[0]


def test_an_alias_and_a_dynamic_mapping_are_looked_through(place: Place) -> None:
    alias = f"{place.index}-alias"
    body = {"actions": [{"add": {"index": place.index, "alias": alias}}]}
    place.engine.request("POST", "/_aliases", body=body)
    with pytest.raises(BadInput, match=f"not a field of '{alias}'; did you mean 'title'"):
        place.featuresets.push(TYPO, index=alias)
    # The mapping is dynamic: what no document has yet is no field all the same.
    year = featureset_of({"range": {"year": {"gte": 1979}}})
    with pytest.raises(BadInput, match="'year' is not a field"):
        place.featuresets.push(year, index=alias)
    place.engine.request("PUT", f"/{place.index}/_doc/2", body={"year": 1979})
    place.featuresets.push(year, index=alias)
    place.featuresets.delete("set")


def test_an_unmapped_field_can_be_allowed(place: Place) -> None:
    place.featuresets.push(TYPO, index=place.index, allow_unmapped=True)
    place.featuresets.delete("set")


def test_an_index_that_is_not_there_is_still_what_is_said(place: Place) -> None:
    with pytest.raises(Refused, match="no such index"):
        place.featuresets.push(TYPO, index="no-such-index")


def with_plugin(fake: FakeEngine) -> FeatureSets:
    """The feature sets of a cluster with the plugin, and with an index of movies."""
    fake.on("GET", "/movies/_mapping", {"movies": {"mappings": MAPPINGS}})
    cluster = Cluster(Engine(ConnectionSettings(fake.url)))
    vars(cluster)["store"] = LtrPluginStore(cluster.engine)
    return cluster.featuresets


def test_the_plugins_store_is_not_even_asked_to_take_a_misspelt_field(fake: FakeEngine) -> None:
    with pytest.raises(BadInput, match="did you mean 'title'"):
        with_plugin(fake).push(TYPO, index="movies")
    assert [asked.path for asked in fake.requests] == ["/movies/_mapping"]


YEAR = featureset_of({"range": {"votes": {"gte": "{{least}}"}}}, "least")
TAGS = featureset_of('{"terms": {"tags": {{#toJson}}labels{{/toJson}}}}', "labels")


@pytest.mark.parametrize(
    ("featureset", "name", "value"),
    [
        (YEAR, "least", 3),
        (TAGS, "labels", ["a", "b"]),
        (featureset_of('{"range": {"votes": {"gte": {{least}} }}}', "least"), "least", 3),
    ],
)
def test_a_parameter_that_is_no_text_is_said_to_be_the_cause_and_can_be_given(
    featureset: FeatureSet, name: str, value: Any, place: Place
) -> None:
    with pytest.raises((Refused, BadInput)) as error:
        place.featuresets.push(featureset, index=place.index)
    assert f"'{name}' was tried as the text 'test'" in str(error.value)
    assert f"`params={{'{name}': VALUE}}`" in str(error.value)
    assert "set" not in place.featuresets.names()
    pushed = place.featuresets.push(featureset, index=place.index, params={name: value})
    assert pushed.validation == {"index": place.index, "params": {name: value}}
    place.featuresets.delete("set")


def test_what_is_given_goes_before_the_sets_own_sample_and_that_before_the_keywords(
    place: Place,
) -> None:
    own = FeatureSet("set", YEAR.features, {"index": "x", "params": {"least": 5}})
    assert place.featuresets.push(own, index=place.index).validation == {
        "index": place.index, "params": {"least": 5},
    }  # fmt: skip
    given = place.featuresets.push(own, index=place.index, params={"least": 7}, replace=True)
    assert given.validation is not None
    assert given.validation["params"] == {"least": 7}
    place.featuresets.delete("set")


def test_a_failure_that_no_guess_causes_is_told_without_a_word_of_parameters(place: Place) -> None:
    broken = featureset_of({"match": {"title": {"query": "{{keywords}}", "slop": "x"}}}, "keywords")
    with pytest.raises(Refused) as error:
        place.featuresets.push(broken, index=place.index)
    assert "`params=" not in str(error.value)


def test_the_plugins_refusal_of_a_parameter_names_it_too(fake: FakeEngine) -> None:
    reason = (
        "Cannot create query while parsing feature [f]: failed to create query: "
        'For input string: "test"'
    )
    fake.on("PUT", "/_ltr", {"acknowledged": True})
    fake.on("PUT", "/_ltr/_featureset/set", Reply({"error": {"type": "x", "reason": reason}}, 400))
    with pytest.raises(Refused, match=r"`params=\{'least': VALUE\}`"):
        with_plugin(fake).push(YEAR, index="movies")


def test_a_parameter_that_no_template_names_is_refused(place: Place) -> None:
    with pytest.raises(
        UsageError, match=r"'yaer' is not a parameter of the feature set 'set'.*least"
    ):
        place.featuresets.push(YEAR, index=place.index, params={"yaer": 3})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p=3", 3), ("p=2.5", 2.5), ("p=true", True), ('p=["a"]', ["a"]), ('p={"a": 1}', {"a": 1}),
        ("p=the thing", "the thing"), ('p="3"', "3"), ("p=", ""), ("p=null", "null"),
        ("p=NaN", "NaN"), ("p=a=b", "a=b"), ("p=[1", "[1"), ("p=1e999", "1e999"),
        ("p=[0.5, -1]", [0.5, -1]), ("p=007", "007"), ('p="@me"', "@me"), ("p=a@b", "a@b"),
    ],
)  # fmt: skip
def test_values_are_json_where_they_can_be(text: str, value: Any) -> None:
    assert named_params([text]) == {"p": value}


@pytest.mark.parametrize("text", ["p", "=3", ""])
def test_a_parameter_without_a_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        named_params([text])


def test_a_file_holds_a_value_that_is_too_long_to_type(tmp_path: Path) -> None:
    vector = [0.5 * number for number in range(768)]
    (tmp_path / "v.json").write_text(json.dumps(vector))
    assert named_params([f"v=@{tmp_path / 'v.json'}", "k=3"]) == {"v": vector, "k": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[1, 2",
            "v.json, which `params` names for 'v': it is not JSON (expecting ',' delimiter at",
        ),
        ("[NaN]", "it is not JSON (NaN is not a finite number)"),
        ("null", "v.json, which `params` names for 'v', holds null, which is not a value"),
        (None, "no such file or directory; check the name; where @ begins the text itself, write"),
    ],
)
def test_a_file_that_holds_no_value_is_named(
    content: str | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "v.json").write_text(content)
    with pytest.raises(BadInput) as refused:
        named_params([f"v=@{tmp_path / 'v.json'}"])
    assert message in str(refused.value)


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="parameter 'p' is given twice"):
        named_params(["p=1", "p=2"])


def test_parameters_from_python_may_be_arrays_and_are_finite() -> None:
    given = {"v": np.array([0.5, 1], np.float32), "n": np.int64(3), "t": "x", "l": [1, [2]]}
    assert plain_params(given) == {"v": [0.5, 1.0], "n": 3, "t": "x", "l": [1, [2]]}
    for bad in (float("nan"), [1.0, float("inf")], {"a": [float("nan")]}, np.array([np.nan])):
        with pytest.raises(BadInput, match=r"the parameter 'v' holds (nan|inf), which is no"):
            plain_params({"v": bad})


def test_the_command_says_it_in_one_line_and_takes_values(place: Place, run: Run) -> None:
    def push(featureset: FeatureSet, *more: str) -> tuple[int, str, str]:
        Path("set.json").write_text(json.dumps(featureset.to_body()))
        where = ("--index", place.index, "--store", place.store, "--store-kind", "plugin-free")
        url = ("--url", place.engine.settings.url)
        return run("featureset", "push", "set.json", *where, *url, *more)

    code, _, err = push(TYPO)
    assert (code, err) == (
        3,
        f"cluster: {place.engine.settings.url}\n"
        f"owpc-ltr: feature 'title_bm25': 'titel' is not a field of '{place.index}'; did you mean "
        "'title'?\n",
    )
    assert push(TYPO, "--allow-unmapped", "--replace")[0] == 0
    assert push(YEAR, "--replace")[0] == 5
    assert push(YEAR, "--param", "least=3", "--replace")[0] == 0


def test_each_command_that_writes_says_first_to_which_cluster(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("set.json").write_text(json.dumps(YEAR.to_body()))
    Path("docs.jsonl").write_text('{"title": "alien"}\n')
    url = place.engine.settings.url
    to = ("--url", url, "--json")
    stored = (*to, "--store", place.store, "--store-kind", "plugin-free")
    for words in (
        ("index", "docs.jsonl", "--index", place.index, "--append", "--id-field", "title", *to),
        ("featureset", "push", "set.json", "--index", place.index, "--param", "least=3", *stored),
    ):
        code, out, err = run(*words)
        assert (code, err) == (0, f"cluster: {url}\n")
        assert isinstance(json.loads(out), dict)
    _, out, _ = run("index", "docs.jsonl", "--index", place.index, "--recreate", "--url", url)
    assert out == (
        f"indexed 1 documents; '{place.index}' holds 1; "
        "ids are line numbers (--id-field names a field for them)\n"
    )
    err = run.refusal(3, "featureset", "delete", "sett", *stored[:2], *stored[3:])
    assert err.endswith(": did you mean 'set'?\n")
    code, out, err = run("featureset", "delete", "set", *stored[:2], *stored[3:])
    assert (code, out, err) == (0, "deleted feature set 'set'\n", f"cluster: {url}\n")
    # No engine is there: it was named before anything could be written.
    closed = "http://127.0.0.1:9"
    monkeypatch.setenv("OWPC_LTR_DEADLINE", "0.5")
    _, _, err = run("featureset", "delete", "set", "--url", closed, "--store-kind", "plugin-free")
    assert err.startswith(f"cluster: {closed}\n")
