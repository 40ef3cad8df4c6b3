"""An alias is switched on evidence of what users have and will have, whatever path is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr import OwpcLtrWarning, save_model
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.attempts import ClusterAttempts
from owpc_ltr.engine.client.responses import NotAllowed
from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.evidence import Evidence, read_evidence
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.models.linear import LinearModel
from tests.engine.small_cluster import WORDS, Small, emptied_store, fill, linear, shared_cluster

shared = shared_cluster(documents=240)

QUERY = {"match": {"body": "{{keywords}}"}}
GOOD, BETTER, BAD = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)


@pytest.fixture
def small(shared: Small) -> Iterator[Small]:
    """A store and a name that no other test has used."""
    with emptied_store(shared) as made:
        yield made


@pytest.fixture
def judged(small: Small) -> Judgments:
    """What two people say: the words of the query in the title; they err in one of seven."""
    queries, titles = [], small.titles()
    people = ["anna", "ben"] * (len(titles) // 2)
    for number, words in enumerate(combinations(WORDS, 2)):
        grades = np.array([len(set(words) & title) for title in titles.values()], np.float32)
        wrong = np.random.default_rng(number).random(len(grades)) < 1 / 7
        grades[wrong] = 2 - grades[wrong]
        judges = np.random.default_rng(number).permutation(people).tolist()
        params = {"keywords": " ".join(words)}
        queries.append(JudgedQuery(f"q{number}", params, list(titles), grades, judged_by=judges))
    return Judgments(queries)


def first(small: Small, weights: tuple[float, ...] = BAD, **options: Any) -> str:
    """The first model of an alias; it needs no evidence."""
    return str(upload(small, weights, **options).model)


def upload(small: Small, weights: tuple[float, ...], **options: Any) -> Any:
    given = {"query_template": QUERY, "window": 50, **options}
    return small.cluster.upload(linear(weights), name=small.name, index=small.index, **given)


def compared(small: Small, judged: Judgments, weights: Any = BETTER, **options: Any) -> Any:
    """A model, or a ranker by name, compared with what the alias serves."""
    new = linear(weights) if isinstance(weights, tuple) else weights
    rankers = {"the new model": new, small.name: options.pop("over", small.name)}
    return small.cluster.compare_live(
        rankers, judgments=judged, metrics=["ndcg@10"], index=small.index, **options
    )


def current(small: Small) -> str:
    alias = Aliases(small.engine, small.store).find(small.name)
    assert alias is not None
    return alias.current


def by_upload(small: Small, evidence: Any, weights: Any = BETTER, **options: Any) -> None:
    upload(small, weights, require=evidence, **options)


def by_promotion(small: Small, evidence: Any, weights: Any = BETTER, **options: Any) -> None:
    upload(small, weights, role="challenger", **options)
    small.cluster.models.promote(small.name, require=evidence)


PATHS = pytest.mark.parametrize("switch", [by_upload, by_promotion])
Switch = Callable[..., None]


@PATHS
def test_a_better_model_replaces_the_champion_and_its_record_says_on_what(
    small: Small, judged: Judgments, switch: Switch
) -> None:
    old = first(small)
    comparison = compared(small, judged)
    assert comparison.verdict().outcome is Outcome.BETTER
    switch(small, comparison)
    assert current(small) != old
    record = DeploymentRecords(small.engine, small.store).get(current(small))
    assert record.switch is not None
    assert record.switch["over"] == old
    assert record.switch["evidence"]["verdict"] == {"outcome": "better", "reasons": []}
    assert record.switch["evidence"]["by"] == "live results"
    # The same upload again replaces nothing, and forgets nothing.
    again = upload(small, BETTER)
    assert again.switch == record.switch


@PATHS
def test_without_evidence_the_champion_stays(small: Small, switch: Switch) -> None:
    old = first(small)
    with pytest.raises(Refused, match=r"users of 'm-.*compare-live .* --out better.json"):
        switch(small, None)
    assert current(small) == old


@pytest.mark.thorough(sample=6)
@PATHS
@pytest.mark.parametrize(
    ("measured", "served", "says"),
    [
        # Champion and candidate are compared under a query that users do not have.
        ({"same_query": True, "query_template": {"match": {"title": "{{keywords}}"}}},
         {"query_template": {"match": {"title": "{{keywords}}"}}}, "another query template"),
        # Good documents are filtered away by what is beside the query, or not waited for.
        ({}, {"query_template": {"query": QUERY, "post_filter": {"range": {"size": {"lt": 0}}}}},
         "evidence is of another query template"),
        ({}, {"query_template": {"query": QUERY, "timeout": "1ms"}},
         "evidence is of another query template"),
        ({}, {"window": 10}, r"evidence is of another window \(50 and 10\)"),
        ({"over": "query", "query_template": QUERY}, {},
         "compares with the query alone, and users have"),
        ({"weights": GOOD}, {}, "the evidence is of another model"),
    ],
    ids=["query", "filter", "timeout", "window", "baseline", "model"],
)  # fmt: skip
def test_evidence_of_something_else_switches_nothing(
    small: Small,
    judged: Judgments,
    switch: Switch,
    measured: dict[str, Any],
    served: dict[str, Any],
    says: str,
) -> None:
    old = first(small)
    comparison = compared(small, judged, **measured)
    with pytest.raises(Refused, match=says) as refusal:
        switch(small, comparison, **served)
    assert refusal.value.exit_code == 5
    assert current(small) == old


@PATHS
def test_a_champion_that_came_meanwhile_stays(
    small: Small, judged: Judgments, switch: Switch
) -> None:
    first(small)
    comparison = compared(small, judged)
    meanwhile = upload(small, GOOD, unproven="a test").model
    with pytest.raises(Refused, match=r"the evidence compares with m-.*, and users have m-"):
        switch(small, comparison)
    assert current(small) == meanwhile


@PATHS
def test_evidence_of_an_index_that_had_the_name_switches_nothing(
    small: Small, judged: Judgments, switch: Switch
) -> None:
    """An index that was made anew, another behind an alias, and that of another cluster."""
    index, own, name = small.index, f"{small.index}-own", f"{small.index}-alias"

    def change(*actions: dict[str, Any]) -> None:
        small.engine.request("POST", "/_aliases", body={"actions": list(actions)})

    change({"add": {"index": index, "alias": name}})
    there = replace(small, index=name)
    old, comparison = first(there), compared(there, judged)
    fill(small.engine, own, 240)
    try:
        change({"remove": {"index": index, "alias": name}}, {"add": {"index": own, "alias": name}})
        with pytest.raises(Refused, match=f"another index behind the name '{name}' than"):
            switch(there, comparison)
        assert current(there) == old
    finally:
        small.engine.request("DELETE", f"/{own}")


@PATHS
def test_evidence_from_before_a_rollback_switches_nothing(
    small: Small, judged: Judgments, switch: Switch
) -> None:
    old = first(small)
    comparison = compared(small, judged)
    switch(small, comparison)
    better = current(small)
    small.cluster.models.rollback(small.name)
    with pytest.raises(Refused, match=f"and '{small.name}' was rolled back at 20"):
        small.cluster.models.promote(better, require=comparison)
    assert current(small) == old
    later = f"{datetime.now(UTC) + timedelta(seconds=2):%Y-%m-%dT%H:%M:%SZ}"
    small.cluster.models.promote(better, require=replace(comparison.evidence(), written=later))
    assert current(small) == better


@PATHS
def test_old_evidence_and_a_verdict_that_is_not_better_switch_nothing(
    small: Small, judged: Judgments, switch: Switch
) -> None:
    old = first(small)
    fresh = compared(small, judged).evidence()
    long_ago = f"{datetime.now(UTC) - timedelta(days=31):%Y-%m-%dT%H:%M:%SZ}"
    with pytest.raises(Refused, match="must be of the last 30 days"):
        switch(small, replace(fresh, written=long_ago))
    worse = compared(small, judged, (0.0, 0.0, -2.0)).evidence()
    assert worse.verdict["outcome"] != "better"
    with pytest.raises(Refused, match="the verdict of the evidence is"):
        switch(small, worse, (0.0, 0.0, -2.0))
    assert current(small) == old


def test_a_challenger_and_a_first_model_need_nothing_and_a_reason_is_recorded(
    small: Small, tmp_path: Path
) -> None:
    old = first(small)
    upload(small, GOOD, role="challenger")
    assert current(small) == old
    done = upload(small, BETTER, unproven="the old one cost money")
    assert done.switch == {"over": old, "unproven": "the old one cost money"}
    listed = str(small.cluster.models.overview())
    assert f"'{small.name}' was switched without evidence: the old one cost money" in listed
    page = tmp_path / "page.html"
    verified = small.cluster.verify(small.name, report=page)
    assert verified.switch == f"replaced {old} without evidence: the old one cost money"
    assert "without evidence: the old one cost money" in page.read_text()
    with pytest.raises(UsageError, match="a challenger replaces nothing"):
        upload(small, BAD, role="challenger", unproven="why")
    with pytest.raises(UsageError, match="is empty"):
        upload(small, BAD, unproven=" ")


def test_a_challenger_does_not_change_what_a_rollback_brings_back(small: Small) -> None:
    old = first(small, GOOD)
    upload(small, BETTER, unproven="a test")
    filtered = {"query": QUERY, "post_filter": {"range": {"size": {"lt": 0}}}}
    for changed in ({"query_template": filtered}, {"window": 1}):
        with pytest.raises(Refused, match="a rollback would bring it back with another"):
            upload(small, GOOD, role="challenger", **changed)
    upload(small, GOOD, role="challenger")
    small.cluster.models.rollback(small.name)
    record = DeploymentRecords(small.engine, small.store).get(current(small))
    assert record.model == old
    assert record.search == {"template": {"query": QUERY}, "params": {}, "window": 50}


def test_a_champion_without_a_known_query_is_not_compared(small: Small, judged: Judgments) -> None:
    old = small.cluster.upload(linear(BAD), name=small.name, index=small.index)
    assert "the application's query is not known" in " ".join(str(old).split())
    comparison = compared(small, judged, query_template=QUERY)
    with pytest.raises(Refused, match="what users have is not known"):
        by_upload(small, comparison)
    # To say what it is changes nothing for users, and needs nothing.
    assert upload(small, BAD).model == old.model
    by_upload(small, compared(small, judged))
    assert current(small) != old.model


def test_each_side_is_searched_with_its_own_query_and_window(
    small: Small, judged: Judgments
) -> None:
    """The same model twice: only the query differs, and that decides."""
    title = {"match": {"title": "{{keywords}}"}}
    first(small, BETTER, query_template=QUERY, window=1)
    comparison = compared(small, judged, BETTER, query_template=title, window=50)
    assert comparison.verdict().outcome is Outcome.BETTER
    alike = compared(small, judged, BETTER, query_template=title, window=50, same_query=True)
    assert alike.pairs[0].comparison.mean_difference == 0
    assert any("no evidence for a switch" in note for note in alike.notes)
    by_upload(small, comparison, BETTER, query_template=title, window=50)


def test_the_champion_beside_the_query_is_no_attempt_to_replace_it(
    small: Small, judged: Judgments
) -> None:
    first(small)
    small.cluster.compare_live(
        [small.name, "query"], judgments=judged, metrics=["ndcg@10"], index=small.index
    )
    assert not ClusterAttempts(small.engine, small.name, candidate="").made()
    assert compared(small, judged).earlier_comparisons == 0
    assert len(ClusterAttempts(small.engine, small.name, candidate="").made()) == 1
    # Names of a mapping are no rankers that a command could name.
    assert compared(small, judged).pool == ""


def test_who_may_not_count_an_attempt_reads_the_result_and_gets_no_evidence(
    small: Small, judged: Judgments, tmp_path: Path
) -> None:
    first(small)

    def refuse(*_: Any) -> None:
        raise NotAllowed("no permissions for [indices:data/write/index]")

    def no_search(*_: Any) -> None:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterAttempts, "_write", refuse)
        with pytest.warns(OwpcLtrWarning, match="is no evidence for a switch: no permissions"):
            comparison = compared(small, judged)
        # Who asks for evidence is told before the work.
        patch.setattr("owpc_ltr.engine.live_results.comparison.answers_of", no_search)
        with pytest.raises(NotAllowed, match=r"which evidence needs: .*or leave out `out`"):
            compared(small, judged, out=tmp_path / "better.json")
    assert comparison.verdict().outcome is Outcome.BETTER
    with pytest.raises(Refused, match="the comparison was not counted among the attempts of"):
        by_upload(small, comparison)
    assert not ClusterAttempts(small.engine, small.name, candidate="").made()


def test_a_first_model_may_have_evidence_over_the_query(small: Small, judged: Judgments) -> None:
    comparison = small.cluster.compare_live(
        [linear(BETTER)], judgments=judged, index=small.index, query_template=QUERY,
        metrics=["ndcg@10"], window=50,
    )  # fmt: skip
    by_upload(small, comparison)
    record = DeploymentRecords(small.engine, small.store).get(current(small))
    assert record.switch is not None
    assert record.switch["over"] is None


def test_human_labels_of_a_sample_decide_live_with_proxy_labels_of_all(
    small: Small, judged: Judgments
) -> None:
    first(small)
    proxies = [
        replace(query, judged_by=["clicks"] * len(query.doc_ids)) for query in judged.queries
    ]
    people = Judgments(judged.queries[::2])
    comparison = compared(small, people, proxy_labels=Judgments(proxies))
    powered = comparison.pairs[0].prediction_powered
    assert powered is not None
    assert (powered.n_queries, powered.n_human) == (len(proxies), len(people.queries))
    assert "clicks" in comparison.evidence().judges


def test_human_labels_that_are_the_proxy_labels_cannot_tell(
    small: Small, judged: Judgments
) -> None:
    first(small)
    proxies = [replace(q, judged_by=["clicks"] * len(q.doc_ids)) for q in judged.queries]
    rng = np.random.default_rng(0)
    own = [
        replace(q, grades=np.where(rng.random(len(q.grades)) < 0.2, 0, q.grades)) for q in proxies
    ]
    people = Judgments(judged.queries[::2])
    for of_all, is_copied in ((proxies, True), (own, False)):
        comparison = compared(small, people, proxy_labels=Judgments(of_all))
        checks = [warning.check for warning in comparison.verdict().warnings]
        assert ("same-judge" in checks) == is_copied


def test_evidence_survives_a_file_and_no_change_of_it(
    small: Small, judged: Judgments, tmp_path: Path
) -> None:
    first(small)
    comparison = compared(small, judged, out=tmp_path / "better.json")
    evidence = read_evidence(tmp_path / "better.json")
    assert isinstance(evidence, Evidence)
    assert evidence.new == comparison.configurations["the new model"]
    text = (tmp_path / "better.json").read_text()
    for changed in (text.replace(small.index, "other"), "{}", "[1]", text.replace('"by"', '"bx"')):
        (tmp_path / "changed.json").write_text(changed)
        with pytest.raises(BadInput, match=r"changed\.json"):
            by_upload(small, tmp_path / "changed.json")
    by_upload(small, tmp_path / "better.json")
    assert current(small).startswith(small.name)


def test_a_parameter_of_an_upload_without_a_query_is_refused(small: Small) -> None:
    with pytest.raises(UsageError, match="`params` goes with `query_template`"):
        small.cluster.upload(
            linear(BAD), name=small.name, index=small.index,
            params={"k": 3},
        )  # fmt: skip


def test_judged_documents_are_no_evidence(small: Small) -> None:
    first(small)
    with pytest.raises(UsageError, match="a comparison on judged documents is not"):
        by_upload(small, object())


def test_the_digest_is_of_the_content_alone(tmp_path: Path) -> None:
    from owpc_ltr.engine.evidence import model_digest
    from owpc_ltr.models.model_file import load_scoring_model

    model = LinearModel(("a", "b"), np.array([1 / 3, 2e-17]), record={"featureset_hash": "h"})
    save_model(model, tmp_path / "any-name.json")
    assert model_digest(load_scoring_model(tmp_path / "any-name.json")) == model_digest(model)
    other = replace(model, record={"featureset_hash": "other"})
    assert model_digest(other) != model_digest(model)
