"""Every path to a verdict, asked about one simulated case; see `benchmarks/verdicts.py`."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from owpc_ltr_metrics.ndcg import NDCG
from owpc_ltr_report.comparison import verdict_of
from verdict_worlds import DOCUMENTS, METRIC, TOP, Case, Matrix, Rng, word

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import JUDGED_BY, JudgedQuery, Judgments, judges_of
from owpc_ltr.data.runs import TrecRun
from owpc_ltr.data.splits import source_of
from owpc_ltr.engine.live_results.comparison import LiveResults
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation import measurement as results
from owpc_ltr.evaluation.compared_pair import ComparedPair
from owpc_ltr.evaluation.comparison import compare_results
from owpc_ltr.evaluation.comparison_result import RankerComparison
from owpc_ltr.evaluation.judged_data import (
    ChosenQueries,
    choose_queries,
    judgment_warnings,
    without_features,
)
from owpc_ltr.evaluation.measurement import (
    ComparedQueries,
    ComparisonPlan,
    PerQueryResults,
    Resampling,
    measure_lists,
)
from owpc_ltr.evaluation.ranked_lists import ranked_lists
from owpc_ltr.evaluation.significance import Comparison, Verdict, compare_paired, decide
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.query_analysis import text_scores
from owpc_ltr.fusion import evaluation as fusion
from owpc_ltr.fusion.engine_fusions import engine_fusions
from owpc_ltr.models.linear import LinearModel

NEW, OLD = "new", "old"
REFUSED = "refused"
_FEATURES = ("text", "old", "new")
_TEMPLATE: dict[str, Any] = {"match_all": {}}
_SAMPLED = 100
"""Whose judged documents are looked at for signs of bad judgments, as `compare-live` does."""
_FEATURE_SET = FeatureSet(
    "simulated",
    tuple(Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}}) for name in _FEATURES),
)


@dataclass(frozen=True)
class Answer:
    """The outcome, the checks that doubt it, and the mean difference that was measured."""

    outcome: str
    checks: tuple[str, ...] = ()

    @staticmethod
    def of(verdict: Verdict | None) -> Answer:
        """That of a verdict."""
        assert verdict is not None
        return Answer(str(verdict.outcome), tuple(one.check for one in verdict.warnings))


@dataclass(frozen=True, eq=False)
class Team:
    """A case as a team has it: judgments, a dataset, two models, two runs, and an index."""

    case: Case
    rng: Rng
    resamples: int

    @cached_property
    def text(self) -> Matrix:
        """The score of the query alone."""
        noise = self.rng.normal(size=self.case.old.shape)
        return np.asarray(self.case.old + self.case.new + 4.0 * noise)

    @cached_property
    def judged(self) -> list[JudgedQuery]:
        """The judged queries."""
        return self.judged_as(self.case.judged)

    def judged_as(self, labels: Matrix, judge: str = "") -> list[JudgedQuery]:
        """The queries with these labels, by those who judged them or one other judge."""
        case, found = self.case, []
        columns = zip(case.names, case.words, case.documents, labels, strict=True)
        for number, (name, text, documents, grades) in enumerate(columns):
            known = np.flatnonzero(~np.isnan(grades))
            if not len(known):
                continue
            found.append(JudgedQuery(
                name,
                {"keywords": text, "query": text},
                [documents[place] for place in known.tolist()],
                grades[known].astype(np.float32),
                importance=None if case.importance is None else float(case.importance[number]),
                judged_by=[judge] * len(known) if judge else case.judges_of(number, known),
            ))  # fmt: skip
        return found

    def features(self, number: int) -> Matrix:
        """What is known of the documents of a query."""
        case = self.case
        return np.column_stack([self.text[number], case.old[number], case.new[number]])

    @cached_property
    def data(self) -> RankingDataset:
        """The judged documents with their features."""
        return self.dataset()

    def dataset(self, *, whole: bool = False) -> RankingDataset:
        """The judged documents with their features, or all, as irrelevant where unjudged."""
        case, kept = self.case, {query.query_id for query in self.judged}
        rows, labels, ids, texts, sizes, numbers = [], [], [], [], [0], []
        who: list[str] = []
        columns = zip(case.names, case.words, case.documents, case.judged, strict=True)
        for number, (name, text, documents, grades) in enumerate(columns):
            if name not in kept:
                continue
            known = np.arange(DOCUMENTS) if whole else np.flatnonzero(~np.isnan(grades))
            rows.append(self.features(number)[known])
            labels.append(np.nan_to_num(grades[known]))
            ids += [documents[place] for place in known.tolist()]
            who += case.judges_of(number, known) or [""] * len(known)
            texts.append(json.dumps({"keywords": text, "query": text}))
            sizes.append(sizes[-1] + len(known))
            numbers.append(number)
        judges = judges_of(self.judged)
        return RankingDataset(
            features=np.ascontiguousarray(np.concatenate(rows), np.float32),
            labels=np.concatenate(labels).astype(np.float32),
            offsets=np.array(sizes, np.int64),
            query_ids=pa.array([f"q{number}" for number in numbers], pa.string()),
            feature_names=_FEATURES,
            doc_ids=pa.array(ids, pa.string()),
            query_params=pa.array(texts, pa.string()),
            query_weights=None if case.importance is None else case.importance[numbers],
            manifest={"judgments": judges} if judges else None,
            # As `log-features` keeps it.
            document_fields={JUDGED_BY: pa.array(who, pa.string())} if any(who) else None,
        )

    def model(self, name: str) -> LinearModel:
        """A model that reads one feature, with the record of its training."""
        case = self.case
        others = [word(10**6 + number) for number in range(50)]
        texts = [*others, *case.trained_on]
        if name == NEW and case.training == "these":
            texts = case.words
        record = {} if name == NEW and case.training == "unknown" else _record_of(texts)
        return LinearModel(
            _FEATURES, np.array([float(one == name) for one in _FEATURES]), record=record
        )

    @property
    def models(self) -> dict[str, LinearModel]:
        """Both."""
        return {NEW: self.model(NEW), OLD: self.model(OLD)}

    @cached_property
    def compared(self) -> RankerComparison:
        """Both on the judged documents."""
        return ltr.compare(
            self.models, data=self.data, metrics=METRIC, baseline=OLD,
            resamples=self.resamples,
        )  # fmt: skip

    @cached_property
    def documents(self) -> list[list[str]]:
        """The documents of the judged queries."""
        kept = {query.query_id for query in self.judged}
        columns = zip(self.case.names, self.case.documents, strict=True)
        return [documents for name, documents in columns if name in kept]

    def listed(self, scores: Matrix) -> dict[str, tuple[str, ...]]:
        """The documents of each query, best first; without unjudged ones where they were cut."""
        case, found = self.case, {}
        columns = zip(case.names, case.documents, scores, case.judged, strict=True)
        for name, documents, own, grades in columns:
            order = np.argsort(-own)
            if case.lists_cut:
                order = order[~np.isnan(grades[order])]
            found[name] = tuple(documents[place] for place in order.tolist())
        return found

    def run(self, name: str) -> TrecRun:
        """The same as a TREC run."""
        lists = self.listed(self.case.new if name == NEW else self.case.old)
        queries = [query for query, ranked in lists.items() for _ in ranked]
        scores = [1.0 / (rank + 1) for ranked in lists.values() for rank in range(len(ranked))]
        documents = [document for ranked in lists.values() for document in ranked]
        return TrecRun(
            pa.array(queries, pa.string()), pa.array(documents, pa.string()), np.array(scores),
            name, name,
        )  # fmt: skip

    def live(self, chosen: ChosenQueries) -> LiveResults:
        """Live results of both."""
        queries = [self.judged[number] for number in chosen.queries.tolist()]
        new, old, alone = (
            [lists[query.query_id] for query in queries]
            for lists in map(self.listed, (self.case.new, self.case.old, self.text))
        )
        plan = ComparisonPlan(
            (NDCG(cutoff=TOP),), baseline=OLD, drawing=Resampling(0, self.resamples)
        )
        return LiveResults(
            {NEW: new, OLD: old}, queries, chosen, plan, _TEMPLATE, depth=DOCUMENTS, alone=alone
        )


def _record_of(texts: list[str]) -> dict[str, Any]:
    """What a model's record tells of queries of these texts."""
    queries = [
        JudgedQuery(f"t{text}", {"keywords": text, "query": text}, ["d"], np.ones(1, np.float32))
        for text in texts
    ]
    return {"source": source_of(without_features(Judgments(queries)), None)}


def evaluate(team: Team) -> Answer:
    """`owpc-ltr evaluate --baseline`."""
    found = ltr.evaluate(team.model(NEW), team.data, baseline=team.model(OLD), metrics=METRIC)
    return Answer.of(found.verdict())


def compare(team: Team) -> Answer:
    """`owpc-ltr compare` of two models."""
    return Answer.of(team.compared.pairs[0].verdict)


def report(team: Team) -> Answer:
    """The page of `owpc-ltr report` on two models."""
    found = team.compared
    page, verdict = verdict_of(found), found.pairs[0].verdict
    return Answer(str(page.mood), tuple(one.check for one in verdict.warnings))


def runs(team: Team) -> Answer:
    """`owpc-ltr compare` of two TREC runs."""
    found = ltr.compare(
        {NEW: team.run(NEW), OLD: team.run(OLD)}, data=Judgments(team.judged), metrics=METRIC,
        baseline=OLD, resamples=team.resamples,
    )  # fmt: skip
    return Answer.of(found.pairs[0].verdict)


def by_proxy(team: Team) -> RankerComparison:
    """The comparison by people's labels of a third of the queries, and a model's of all."""
    case, rng = team.case, team.rng
    said, sampled = case.proxy, case.sampled
    if said is None:
        moved = rng.choice([-1.0, 0.0, 0.0, 0.0, 1.0], case.grades.shape)
        said = np.clip(case.grades + moved, 0.0, 3.0)
    if sampled is None:
        sampled = rng.permutation(case.n_queries)[: case.n_queries // 3]
    said = np.where(np.isnan(case.judged), np.nan, said)
    names = {f"q{number}" for number in sampled.tolist()}
    people = [query for query in team.judged if query.query_id in names]
    return ltr.compare(
        {NEW: team.run(NEW), OLD: team.run(OLD)}, data=Judgments(people),
        proxy_labels=Judgments(team.judged_as(said, "model:m")), metrics=METRIC, baseline=OLD,
        resamples=team.resamples,
    )  # fmt: skip


def proxy(team: Team) -> Answer:
    """`owpc-ltr compare --proxy-labels` of two TREC runs."""
    return Answer.of(by_proxy(team).pairs[0].verdict)


def live(team: Team) -> Answer:
    """`owpc-ltr compare-live` of one model, and of two, of a model that knows its training."""
    records = {name: model.record for name, model in team.models.items()}
    chosen = choose_queries(records, team.judged)
    found = team.live(chosen).compared()
    drawn = np.random.default_rng(0).permutation(len(chosen.queries))[:_SAMPLED]
    data = team.data.select(chosen.queries[np.sort(drawn)])
    warnings = judgment_warnings(data, text_scores(_FEATURE_SET))
    return Answer.of(found.with_warnings(warnings).verdict())


def plain(team: Team) -> Answer:
    """The live difference by test and interval alone, without any other rule."""
    one = plain_comparison(team)
    return Answer.of(decide(one.low, one.high, one.p_permutation))


def plain_comparison(team: Team) -> Comparison:
    """Live results, unjudged documents being irrelevant, each query for itself."""
    measured = team.live(ChosenQueries(np.arange(len(team.judged)), "all")).results().rankers
    new, old = (measured[name].values[0] for name in (NEW, OLD))
    weights = team.case.importance
    return compare_paired(new, old, seed=0, resamples=team.resamples, weights=weights)


def fuse(team: Team) -> Answer:
    """`owpc-ltr fuse`: what was learned ranks as the new one, the best leg as the old one."""
    case, data = team.case, team.dataset(whole=True)
    data = ltr.make_dataset(
        data.features[:, 1::-1], data.labels, np.repeat(data.query_ids.to_pylist(), DOCUMENTS),
        feature_names=[OLD, "text"], doc_ids=list(itertools.chain(*team.documents)),
        query_weights=data.query_weights,
    )  # fmt: skip
    rows = data.n_documents
    found = np.ones((rows, 2), np.bool_)
    grades = [
        dict(zip(query.doc_ids, map(float, query.grades), strict=True)) for query in team.judged
    ]
    legs = fusion.LoggedLegs(data, found, found[:, 0], np.zeros(rows, np.int64), grades)
    kept = [int(query.query_id[1:]) for query in team.judged]
    # The engines' own fusions decide nothing here.
    with patch.object(fusion, "engine_fusions", lambda legs, _: engine_fusions(legs)[:2]):
        figures = fusion.measure_fusion(
            legs, case.new[kept].ravel(), NDCG(cutoff=TOP), judged=team.judged,
            drawing=Resampling(0, team.resamples),
        )  # fmt: skip
    if figures.best_leg != OLD:
        return Answer(REFUSED, ("other-leg",))
    return Answer.of(figures.verdict)


def repeated(case: Case, part: slice, resamples: int) -> ComparedPair:
    """One of several comparisons on these queries, which are judged completely."""
    metric = NDCG(cutoff=TOP)
    grades, names = case.judged[part], case.names[part]
    known = [
        {document: grade for document, grade in zip(documents, own.tolist(), strict=True)
         if not np.isnan(grade)}
        for documents, own in zip(case.documents[part], grades, strict=True)
    ]  # fmt: skip
    plan = ComparisonPlan((metric,), baseline=OLD, drawing=Resampling(0, resamples))
    rankers = {}
    for name, scores in ((NEW, case.new[part]), (OLD, case.old[part])):
        order = np.argsort(-scores, axis=1).tolist()
        ranked = [
            [documents[place] for place in places]
            for documents, places in zip(case.documents[part], order, strict=True)
        ]
        measured = measure_lists(ranked_lists(ranked, known, DOCUMENTS), plan)
        # Without guards: the metric alone decides.
        rankers[name] = replace(measured, values=measured.values[:1])
    queries = ComparedQueries(pa.array(names, pa.string()), None, None, "all")
    return compare_results(PerQueryResults(rankers, plan, queries)).pairs[0]


PATHS: Mapping[str, Callable[[Team], Answer]] = {
    "evaluate": evaluate,
    "compare": compare,
    "report": report,
    "runs": runs,
    "live": live,
    "fuse": fuse,
    "proxy": proxy,
    "plain": plain,
}


@contextmanager
def fewer_resamples(resamples: int) -> Iterator[None]:
    """So many where a path takes what is installed."""
    drawing = partial(_drawing, resamples)
    with patch.object(results, "Resampling", drawing):
        yield


def _drawing(fewer: int, seed: int = 0, *_others: Any) -> Resampling:
    return Resampling(seed, fewer)


@contextmanager
def no_earlier_comparisons() -> Iterator[None]:
    """A new state folder, without a file of attempts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"OWPC_LTR_HOME": folder}),
    ):
        yield


def ask(path: str, team: Team) -> Answer:
    """The answer of a path, which knows of no earlier comparison."""
    with no_earlier_comparisons():
        try:
            return PATHS[path](team)
        except Refused as refused:
            return Answer(REFUSED, (type(refused).__name__,))
