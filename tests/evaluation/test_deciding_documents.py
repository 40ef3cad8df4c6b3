"""What makes a verdict doubtful: who judged the documents in one top ten alone, and how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr import make_dataset
from owpc_ltr.data.construction import join_datasets
from owpc_ltr.data.judgments import JudgedQuery, Judgments, is_machine
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.engine.live_queries import judged_queries, with_judge
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.evaluation.attempts import earlier_words
from owpc_ltr.evaluation.compared_pair import corrected_over, verdict_line
from owpc_ltr.evaluation.judged_data import ChosenQueries, judgment_warnings, without_features
from owpc_ltr.evaluation.measurement import ComparisonPlan, Resampling
from owpc_ltr.evaluation.rules import copied_label_warnings, unnamed_judges
from owpc_ltr.evaluation.significance import Outcome, Verdict, compare_paired
from owpc_ltr.metrics import parse_metric
from tests.benchmark_scripts import benchmark_script

N = 60
SHARED = [f"s{n}" for n in range(7)]
NEW, OLD = [f"n{n}" for n in range(3)], [f"o{n}" for n in range(3)]
Judge = Callable[[int, str], str]


def judged(judge: Judge, grade: Callable[[int, str], float | None]) -> list[JudgedQuery]:
    """Queries with the documents of both rankers."""
    queries = []
    for number in range(N):
        graded = {name: grade(number, name) for name in [*SHARED, *NEW, *OLD]}
        known = [name for name, value in graded.items() if value is not None]
        grades = np.array([graded[name] for name in known], np.float32)
        judges = [judge(number, name) for name in known]
        text = chr(97 + number % 26) * (4 + number // 26)
        params = {"keywords": text, "query": text}
        ids = [f"{name}-{number}" for name in known]
        queries.append(JudgedQuery(f"q{number}", params, ids, grades, judged_by=judges))
    return queries


def verdict(judge: Judge, grade: Callable[[int, str], float | None]) -> Verdict:
    """Two rankers that put three documents of their own above seven common ones."""
    queries = judged(judge, grade)
    lists = {
        which: [[f"{name}-{q}" for name in [*own, *SHARED]] for q in range(N)]
        for which, own in (("new", NEW), ("old", OLD))
    }
    plan = ComparisonPlan((parse_metric("ndcg@10"),), baseline="old", drawing=Resampling(0, 300))
    chosen = ChosenQueries(np.arange(N), "all")
    return LiveResults(lists, queries, chosen, plan, "q", depth=10).compared().pairs[0].verdict


def verdict_on_data(
    judge: Judge, grade: Callable[[int, str], float | None], *, models: bool
) -> Verdict:
    """The same of two runs, or of two models, of which all documents are judged."""
    judgments = Judgments(judged(judge, grade))
    data = without_features(judgments)
    doc_ids: Any = data.doc_ids
    names = [name.partition("-")[0] for name in doc_ids.to_pylist()]
    ranks = [[[*own, *SHARED, *other].index(name) for name in names]
             for own, other in ((NEW, OLD), (OLD, NEW))]  # fmt: skip
    scores = -np.array(ranks, np.float32).T
    rankers: dict[str, Any]
    if models:
        data = replace(data, features=scores.copy("C"), feature_names=("new", "old"))
        rankers = {name: f"feature:{name}" for name in ("new", "old")}
    else:
        lists = [np.flatnonzero(own > -10) for own in scores.T]
        rankers = {
            name: TrecRun(
                data.query_ids.take(pa.array(np.repeat(np.arange(N), 13)[kept])),
                doc_ids.take(pa.array(kept)), own[kept].astype(np.float64), name, name,
            )
            for name, kept, own in zip(("new", "old"), lists, scores.T, strict=True)
        }  # fmt: skip
    comparison = ltr.compare(
        rankers, data=data if models else judgments, metrics="ndcg@10", baseline="old",
        resamples=300,
    )  # fmt: skip
    return comparison.pairs[0].verdict


def better(number: int, name: str) -> float:
    """The documents of the new ranker alone are better, mostly."""
    noise = np.random.default_rng([number, *name.encode()]).integers(0, 2)
    return float(noise + (name in NEW))


def checks(result: Verdict) -> set[str]:
    return {warning.check for warning in result.warnings}


def test_one_person_or_raters_of_whole_queries_decide() -> None:
    assert str(verdict(lambda *_: "ann", better)) == "better"
    assert str(verdict(lambda number, _: "ann" if number % 2 else "bob", better)) == "better"
    # Of common documents it does not matter who judged.
    assert str(verdict(lambda _, name: "ann" if name in SHARED else "bob", better)) == "better"


def test_a_crowd_in_which_each_rater_judges_a_few_documents_decides() -> None:
    def anybody(number: int, name: str) -> str:
        return f"rater {np.random.default_rng([7, number, *name.encode()]).integers(0, 40)}"

    assert str(verdict(anybody, better)) == "better"


def test_a_few_labels_of_a_machine_decide_nothing_where_the_difference_rests_on_them() -> None:
    def equal(number: int, name: str) -> float:
        return (
            3.0
            if name == "n0"
            else float(np.random.default_rng([number, *name.encode()]).integers(0, 2))
        )

    doubted = verdict(lambda _, name: "model:m" if name == "n0" else "ann", equal)
    assert "machine-labels" in checks(doubted)
    # The model gave 1 of 13 labels, and a person who says the same is believed.
    assert "machine-labels" not in checks(verdict(lambda *_: "ann", equal))
    both = verdict(lambda _, name: "ann=3, model:m=3" if name == "n0" else "ann", equal)
    assert "machine-labels" not in checks(both)
    # Of a grade that the model moved away from the person's, the person's vote counts.
    moved = verdict(lambda _, name: "ann=0, model:m=3" if name == "n0" else "ann", equal)
    assert checks(moved) == {"machine-labels"}
    assert "17% have labels of clicks or models" in moved.reason


def test_models_are_known_by_their_names() -> None:
    models = ("gpt4o", "ChatGPT", "openai/gpt-4.1", "meta-llama/Llama-3", "azure:gpt_4", "model:m")
    assert all(map(is_machine, models))
    assert not any(map(is_machine, ("ann", "aimee", "claudette", "modelling team", "team:bob")))


@pytest.mark.parametrize("models", [True, False])
def test_of_judged_documents_alone_the_same_ones_decide(models: bool) -> None:
    """A few labels of a machine, other raters of one side; one person who says the same."""

    def machine(number: int, name: str) -> float:
        noise = np.random.default_rng([number, *name.encode()]).integers(0, 2)
        return 3.0 if name == "n0" else float(noise)

    doubted = verdict_on_data(
        lambda _, name: "model:m" if name == "n0" else "ann", machine, models=models
    )
    assert "machine-labels" in checks(doubted)
    doubted = verdict_on_data(
        lambda _, name: "bob" if name in NEW else "ann", better, models=models
    )
    assert checks(doubted) == {"other-raters"}
    for grade in (machine, better):
        assert str(verdict_on_data(lambda *_: "ann", grade, models=models)) == "better"


def test_other_raters_of_the_winners_documents_need_common_pairs() -> None:
    def sides(_: int, name: str) -> str:
        return "bob" if name in NEW else "ann"

    doubted = verdict(sides, better)
    assert checks(doubted) == {"other-raters"}
    assert "100% of those of new are judged by other raters than those of old" in doubted.reason

    def common(shift: int) -> Judge:
        def judge(number: int, name: str) -> str:
            if name != "s0":
                return sides(number, name)
            return f"ann=1, bob={1 + shift * (number % 3 > 0)}"

        return judge

    assert str(verdict(common(0), better)) == "better"
    # One who is kinder by most of a grade may have made the gain of one.
    assert checks(verdict(common(2), better)) == {"other-raters"}
    # One who is stricter has not.
    assert str(verdict(common(-1), better)) == "better"


def test_unjudged_documents_of_the_winner_do_not_doubt_it_and_those_of_the_loser_do() -> None:
    def holes(of: list[str], every: int) -> Callable[[int, str], float | None]:
        def grade(number: int, name: str) -> float | None:
            known = better(number, name) - (name in NEW and number % 3 == 0)
            return None if name in of and number % every == 0 else known

        return grade

    assert str(verdict(lambda *_: "ann", holes(NEW[:1], 3))) == "better"
    doubted = verdict(lambda *_: "ann", holes(OLD[:2], 2))
    assert "unjudged" in checks(doubted)
    assert "67% of those of old are judged, and 100% of those of new" in doubted.reason
    assert "judge merge" in " ".join(warning.advice for warning in doubted.warnings)


def test_judgments_of_nobody_by_name_are_a_doubt_until_somebody_is_named() -> None:
    doubted = verdict(lambda *_: "", better)
    assert checks(doubted) == {"unnamed-judge"}
    assert "(`judged_by='people'`, or a column judged_by)" in doubted.warnings[0].advice
    mixed = verdict(lambda number, _: "" if number == 0 else "ann", better)
    assert mixed.reason.startswith("2% of the judgments do not say who gave them")
    query = JudgedQuery("q", {}, ["a", "b"], np.ones(2, np.float32), judged_by=["", "clicks"])
    named = with_judge([query], "people")
    assert named[0].judged_by == ["people", "clicks"]
    assert not list(unnamed_judges(named))


def test_human_grades_that_are_the_models_are_no_second_opinion() -> None:
    rng = np.random.default_rng(0)
    model = rng.choice([0.0, 0.0, 0.0, 1.0, 2.0, 3.0], 400).astype(np.float32)
    corrected = np.where(rng.random(400) < 0.03, 1.0, model).astype(np.float32)
    person = np.where(rng.random(400) < 0.3, rng.permutation(model), model).astype(np.float32)
    (warning,) = copied_label_warnings(corrected, model)
    assert warning.check == "same-judge"
    assert not list(copied_label_warnings(person, model))
    assert not list(copied_label_warnings(model[:20], model[:20]))
    # Where almost all are irrelevant, agreement is frequent by chance.
    rare = (rng.random(400) < 0.03).astype(np.float32)
    other = np.where(rng.random(400) < 0.02, 1 - rare, rare).astype(np.float32)
    assert not list(copied_label_warnings(other, rare))


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize(
    ("scheme", "false"), [(topic, True) for topic in ("24a", "24b", "25a", "25c", "26b", "27")]
    + [(topic, False) for topic in ("25b", "25d", "26a")],
)  # fmt: skip
def test_visible_faults_are_seen_and_better_rankers_are_not_blocked(
    scheme: str, false: bool
) -> None:
    worlds = benchmark_script("verdicts").answered(scheme, ("live",), range(4), 200)["live"]
    wrong = "better" if false else "cannot tell"
    assert sum(world.outcome == wrong for world in worlds) == 0


@pytest.mark.parametrize(
    ("scheme", "world", "doubts"),
    [
        ("35a", 2, {"other-raters"}),
        # Other raters gave 8 % of the grades.
        ("35a", 11, {"other-raters"}),
        ("26b", 2, {"unjudged", "unjudged-decide"}),
        ("1a", 2, set()),
    ],
)
def test_rules_hold_where_human_and_proxy_labels_together_make_the_difference(
    scheme: str, world: int, doubts: set[str]
) -> None:
    worlds, paths = benchmark_script("verdict_worlds"), benchmark_script("verdict_paths")
    of = next(candidate for candidate in worlds.SCHEMES if candidate.name.startswith(f"{scheme} "))
    rng = np.random.default_rng([world, *of.name.encode()])
    with paths.no_earlier_comparisons():
        pair = paths.by_proxy(paths.Team(of.make(rng, 300), rng, 300)).pairs[0]
    by_figures = [
        replace(each, warnings=()).verdict.outcome for each in (pair, pair.by_human_labels)
    ]
    assert by_figures == [Outcome.BETTER, Outcome.NO_DIFFERENCE]
    assert checks(pair.verdict) == doubts


def test_copies_of_a_request_are_told_by_peoples_grades_where_proxy_labels_differ() -> None:
    (answer,) = benchmark_script("verdicts").answered("19", ("proxy",), range(1), 200)["proxy"]
    assert answer.checks == ("repeated-queries",)


def test_the_first_rank_is_guarded_by_human_and_proxy_labels_together() -> None:
    (answer,) = benchmark_script("verdicts").answered("27", ("proxy",), range(3, 4), 300)["proxy"]
    assert answer.checks == ("metrics-disagree",)


def test_a_fusion_is_doubtful_for_the_same_raters_as_live_results() -> None:
    answers = benchmark_script("verdicts").answered("25a", ("fuse", "live"), range(1), 200)
    assert {path: answer[0].checks for path, answer in answers.items()} == {
        "fuse": ("other-raters",), "live": ("other-raters",),
    }  # fmt: skip


def test_the_shift_of_raters_is_a_mean_over_the_grades_that_cannot_be_lowered_too() -> None:
    """Bob lifts every second worthless document by 1, and so he does with common pairs."""

    def kind(number: int, name: str) -> float:
        return float(np.random.default_rng([number, *name.encode()]).integers(0, 2))

    def grade(number: int, name: str) -> float:
        return 1.0 if name in SHARED else kind(number, name) * (name in NEW)

    def judge(number: int, name: str) -> str:
        if name in SHARED:
            return f"ann=1, bob={1 + kind(number, name):g}"
        return "bob" if name in NEW else "ann"

    assert checks(verdict(judge, grade)) == {"other-raters"}
    # As many common pairs of raters who agree; he is right.
    assert str(verdict(lambda q, n: judge(q, n) if n not in SHARED else "ann=1, bob=1", grade)) == (
        "better"
    )


def test_what_is_not_known_of_queries_is_replaced_and_what_is_known_stays() -> None:
    query = JudgedQuery("q", {}, ["a"], np.ones(1, np.float32))
    named = with_judge([query, replace(query, judged_by=["ann"])], "bob")
    assert [each.judged_by for each in named] == [["bob"], ["ann"]]


def test_a_dataset_keeps_who_judged_each_document() -> None:
    query = JudgedQuery("q", {"keywords": "w"}, ["a", "b"], np.ones(2, np.float32))
    named = replace(query, judged_by=["ann", "model:m"])
    data = without_features(Judgments([named]))
    assert judged_queries(data)[0].judged_by == ["ann", "model:m"]
    other = without_features(Judgments([replace(query, query_id="r")]))
    for parts in ([data, other], [other, data]):
        joined = judged_queries(join_datasets(parts, ["x", "y"]))
        assert {each.query_id: each.judged_by for each in joined} == {
            "q": ["ann", "model:m"], "r": ["", ""],
        }  # fmt: skip


@pytest.mark.parametrize(("errs", "doubted"), [(0.05, True), (0.3, False)])
def test_a_table_made_of_the_clicks_that_the_grades_are_made_of_is_told(
    errs: float, doubted: bool
) -> None:
    rng = np.random.default_rng(0)
    grades = (rng.random(1200) < 0.3).astype(np.float32)
    rate = np.where(
        rng.random(1200) < errs, rng.random(1200), 0.5 * rng.random(1200) + 0.5 * grades
    )
    features = np.stack([rng.random(1200), rate], axis=1)
    ids = [f"q{row // 20}" for row in range(1200)]
    data = make_dataset(features, grades, ids, ("bm25", "ctr"))
    source = {"file": "ctr.csv", "sha256": "0" * 64, "keys": ["doc_id"], "features": ["ctr"]}
    table = replace(data, manifest={"joined_tables": [source]})
    assert (
        "external-features" in {warning.check for warning in judgment_warnings(table)}
    ) == doubted
    assert not judgment_warnings(data)


def test_a_gain_that_may_be_too_small_is_no_absence_of_a_difference() -> None:
    no_difference = Verdict(Outcome.NO_DIFFERENCE)
    assert verdict_line(no_difference, "a", "b", "map", smallest_gain=0.02) == (
        "no significant gain above 0.02: a against b by map"
    )
    assert (
        verdict_line(no_difference, "a", "b", "map")
        == "no significant difference: a against b by map"
    )
    earlier = earlier_words(2, "here", 40)
    assert corrected_over(1, earlier=earlier) == (
        "p corrected for 2 earlier comparisons on these queries: it counts 6 times (here; of 40 "
        "queries, 21 must be new to start anew)"
    )


def test_a_verdict_without_traffic_says_so() -> None:
    line = verdict_line(Verdict(Outcome.BETTER), "a", "b", "map")
    assert line == "better: a against b by map, each query counts once"
    assert verdict_line(Verdict(Outcome.BETTER), "a", "b", "map", weighted=True).endswith("map")


def test_interval_and_test_of_clusters_of_uneven_sizes_agree() -> None:
    """505 queries in 325 clusters: 3 in as many equal ones hide a gain that the test finds."""
    rng = np.random.default_rng(5)
    sizes = np.ones(325, np.int64)
    sizes[:45] = 5
    clusters = np.repeat(np.arange(325), sizes)
    b = np.clip(0.55 + 0.2 * rng.normal(size=325), 0, 0.85)[clusters]
    a = b + (0.015 + 0.05 * rng.normal(size=325))[clusters].clip(-0.1, 0.14)
    comparison = compare_paired(a, b, seed=0, resamples=1000, clusters=clusters)
    assert comparison.p_permutation < 0.01
    assert not comparison.includes_zero
    assert 3.0 * len(clusters) ** -2 * (sizes**2).sum() > comparison.mean_difference
