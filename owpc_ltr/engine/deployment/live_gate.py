"""The live gate of `upload --require-gain --judgments`, and the result of both kinds of gate.

The rule: on held-out queries, ranked over the whole index, the gain is significant with unjudged
documents as irrelevant, left out, and as good as judged ones, and measured with judgments that can
show it. The first alone could be reached by promoting judged documents, the second by promoting
seldom judged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.data.construction import make_dataset
from owpc_ltr.engine.client.concurrency import RequestThreads
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import ROLES, Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecord, DeploymentRecords
from owpc_ltr.engine.deployment.proof import logged
from owpc_ltr.engine.deployment.serving_mode import by_folds, on_trial
from owpc_ltr.engine.search.live_evaluation import (
    QUERY_ALONE,
    LiveEvaluation,
    LiveSearches,
    loser_lines,
    losers,
    measure_live,
)
from owpc_ltr.engine.search.serving import query_alone, with_stored
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import Refused
from owpc_ltr.evaluation.compared_pair import (
    ComparedPair,
    corrected_over,
    disagreement,
)
from owpc_ltr.evaluation.comparison_table import RankerComparison
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.prediction_powered import strength_in_words
from owpc_ltr.evaluation.query_choice import ChosenQueries, choose_queries
from owpc_ltr.evaluation.ranked_lists import TOP
from owpc_ltr.evaluation.significance import Outcome, ResultWarning, difference_words
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.score_analysis import text_scores
from owpc_ltr.models.fold_models import FoldOf
from owpc_ltr.plain_text import ShortRepr, wrapped_text
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable

NEW = "the new model"
"""What the model to upload is called in comparisons."""
TO_JUDGE = 100
"""How many queries a gate suggests to judge, a day's work: they detect a gain of .28 standard
deviations of the queries' differences with 80 % power."""
QUERY = "query"
"""The baseline that is no model: the query alone."""
_SAMPLED = 100
_MOST_DOCUMENTS = 500


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GateResult(ShortRepr, RankerComparison):
    """The new model compared with the other one, and whether it is uploaded.

    `over` is the other's immutable name. `live` has the live results with both: the comparison
    itself, or evidence for the one on judged documents. `accepted` is the reason to accept
    inconclusive judgments.
    """

    over: str
    live: LiveEvaluation | None = None
    accepted: str | None = None

    @classmethod
    def of(
        cls, found: RankerComparison, doubts: Sequence[ResultWarning] = (), **facts: Any
    ) -> GateResult:
        """The result by a comparison, with further doubts about it."""
        return cls(**{**found.facts, **facts}).with_doubts(doubts)

    @property
    def outcome_of_figures(self) -> Outcome:
        """What the figures say, whatever makes the judgments doubtful."""
        return self.pairs[0].without_doubts.verdict.outcome

    @property
    def passed(self) -> bool:
        """Whether the model is better, by conclusive or accepted judgments."""
        accepted = self.accepted is not None
        outcome = self.outcome_of_figures if accepted else self.verdict().outcome
        return outcome is Outcome.BETTER

    @property
    def gains(self) -> ComparedPair:
        """The pair, with differences that are gains also where lower values are better."""
        pair = self.pairs[0]
        return pair if pair.higher_is_better else pair.reversed()

    @property
    def to_judge(self) -> tuple[int, int] | None:
        """How many queries, and about how many unjudged documents of both rankers, to judge.

        None where their live results are not known, or all of it is judged.
        """
        if self.live is None:
            return None
        served = zip(self.live.before, self.live.after, self.live.question.queries, strict=True)
        sizes = [
            len({*a.doc_ids[:TOP], *b.doc_ids[:TOP]} - {*query.doc_ids}) for a, b, query in served
        ]
        queries = min(TO_JUDGE, len(sizes))
        return (queries, round(sum(sizes) / len(sizes) * queries)) if any(sizes) else None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        gains = self.gains
        powered = gains.prediction_powered
        return {
            "metric": gains.metric,
            "over": self.over,
            "weighted": self.weighted,
            "verdict": self.verdict().as_dict(),
            "passed": self.passed,
            "split": self.split,
            **({} if self.accepted is None else {"accepted_unproven": self.accepted}),
            "comparison": gains.comparison.as_dict(),
            "losers": losers(self),
            "cautions": list(self.warnings),
            **({} if powered is None else {"powered": powered.as_dict()}),
            **({} if self.live is None else {"live": self.live.as_dict()}),
        }

    def __str__(self) -> str:
        """The verdict, the gain, and what they rest on."""
        accepted = () if self.accepted is None else (f"accepted unproven: {self.accepted}",)
        lines = map(wrapped_text, (str(self.verdict()), *accepted, gain_line(self)))
        return "\n".join([*lines, *detail_lines(self)])


def gain_line(found: GateResult) -> str:
    """The gain with its interval, its number of queries, and the minimum detectable gain."""
    pair = found.gains
    one, both = pair.comparison, pair.prediction_powered
    by = ", weighted by their importance" if found.weighted else ""
    may_be_seen = {"seen-queries", "unknown-training"} & {doubt.check for doubt in pair.doubts}
    how = "cross-validated " if found.split == "folds" else "held-out "
    queries = f"{'' if may_be_seen else how}queries"
    live = "" if found.on_judged_documents else "live "
    of = f"{live}gain in {pair.metric} over '{found.over}'"
    if both is not None:
        mean, alone, proxy = both.by_both, both.by_human, both.by_proxy
        return (
            f"{of}: {mean.mean:+.4f} [{mean.low:+.4f}, {mean.high:+.4f}] on {both.n_human} "
            f"human-judged of {both.n_queries} {queries}{by}, p = {mean.p:.3g}; human "
            f"labels alone {alone.mean:+.4f} [{alone.low:+.4f}, {alone.high:+.4f}], proxy "
            f"labels alone, which are biased, {proxy.mean:+.4f}; {strength_in_words(both)}"
        )
    left_out = ""
    if pair.left_out is not None and pair.as_judged is not None:
        left_out = (
            f", {pair.left_out.mean_difference:+.4f} with unjudged documents left out, "
            f"{pair.as_judged.mean_difference:+.4f} with these as judged ones at their rank"
        )
    independent = "" if one.n_independent is None else f", {one.n_independent} independent"
    corrected = found.looks or found.split == "folds"
    looks = f" ({corrected_over(1, found.looks, found.split)})" if corrected else ""
    why = disagreement(one, pair.p_holm, found.split)
    return (
        f"{of}: {difference_words(one)} on {one.n_queries} {queries}{independent}{by}, "
        f"p = {pair.p_holm:.3g}{looks}{left_out}; "
        f"minimum detectable gain (80 % power): {one.detectable:.4f}"
        f"{why and f'; interval and test disagree: {why}'}"
    )


def detail_lines(found: GateResult) -> list[str]:
    """How much of the live results is judged, warnings, and the queries that lose most."""
    judged = ""
    if found.live is not None:
        before, after = (f"{share:.0%}" for share in found.live.judged)
        judged = (
            f"judged among the first {TOP}: {before} with {found.live.baseline}, {after} with the "
            f"new model; recall of the window: {found.live.recall:.0%}"
        )
    lines = [wrapped_text(text) for text in (judged, *found.warnings) if text.strip()]
    return [*lines, *loser_lines(found)]


class NotBetter(Refused):
    """The gate's refusal, with its result."""

    def __init__(self, result: GateResult, command: str = "") -> None:
        """The verdict and its reason; if inconclusive, what to judge, and the `command` for it."""
        self.result = result
        verdict = result.verdict()
        if verdict.doubts and result.accepted is None:
            super().__init__(f"{verdict}: nothing was uploaded{_settled_by(result, command)}")
            return
        # A doubt that was accepted is not the reason.
        super().__init__(f"{result.outcome_of_figures}: {gain_line(result)}: nothing was uploaded")


def _settled_by(result: GateResult, command: str) -> str:
    if result.to_judge is None:
        return f"; {result.verdict().doubts[0].advice}"
    queries, documents = result.to_judge
    advice = (
        f"; judge the first {TOP} documents of both rankers for {queries} held-out queries (about "
        f"{documents:,} documents)"
    )
    return f"{advice}: {command}" if command else advice


@dataclass(frozen=True)
class LiveGate:
    """The live gain that a new model must have, in the question's first metric.

    `over` is `champion` (for the first model of an alias: the query alone), `challenger`, an
    immutable name, or `query`. Only queries count that neither model was trained or selected on.
    The `tables` have the features from outside the index. `accepted` is the reason to accept
    inconclusive judgments.
    """

    question: LiveSearches
    over: str = "champion"
    side: str = "auto"
    progress: Callable[[str, float | None], None] | None = None
    tables: Sequence[ExternalTable] = ()
    accepted: str | None = None


def live_result(
    engine: Engine,
    store: Store,
    gate: LiveGate,
    model: Model,
    featureset: FeatureSet,
    other: DeploymentRecord | None,
) -> GateResult:
    """Search the whole index without and with the model, which no alias uses yet.

    Nothing of the model stays in the cluster.
    """
    records: dict[str, Mapping[str, Any]] = {NEW: model.record}
    old = QUERY_ALONE if other is None else f"'{other.model}'"
    if other is not None:
        records[old] = other.record
    chosen = choose_queries(records, gate.question.queries, gate.side)
    kept = [gate.question.queries[number] for number in chosen.queries.tolist()]
    question = replace(gate.question, queries=kept)
    found = live_evidence(
        engine, store, question, model, featureset, other=other, tables=gate.tables,
        progress=gate.progress, chosen=chosen,
        folds=(chosen.folds.get(old, {}), chosen.folds.get(NEW, {})),
    )  # fmt: skip
    return GateResult.of(
        found,
        _feature_doubts(engine, store, featureset, question),
        over=QUERY_ALONE if other is None else other.model,
        live=found,
        accepted=gate.accepted,
        warnings=chosen.warnings,
    )


def live_evidence(
    engine: Engine,
    store: Store,
    question: LiveSearches,
    model: Model,
    featureset: FeatureSet,
    *,
    other: DeploymentRecord | None,
    tables: Sequence[ExternalTable],
    progress: Callable[[str, float | None], None] | None,
    folds: tuple[FoldOf, FoldOf] = ({}, {}),
    chosen: ChosenQueries | None = None,
) -> LiveEvaluation:
    """Live results with the other model, or the query alone, and with the new one.

    `folds` are those whose models rank queries that the other or the new model learned from.
    """
    alone = query_alone(engine, store)
    with ExitStack() as kept:
        before, name = alone, QUERY_ALONE
        if other is not None:
            stored = store.get_model(other.model)
            whole = with_stored(engine, store, stored, other.interval, tables)
            before = kept.enter_context(
                by_folds(
                    engine,
                    store,
                    whole,
                    other.record,
                    other.featureset,
                    fold_of=folds[0],
                    tables=tables,
                )
            )
            name = f"'{other.model}'"
        whole = kept.enter_context(on_trial(engine, store, model, featureset, tables))
        after = kept.enter_context(
            by_folds(
                engine, store, whole, model.record, featureset, fold_of=folds[1], tables=tables
            )
        )
        return measure_live(
            question, before, after, progress,
            alone=None if other is None else alone, names=(name, NEW), chosen=chosen,
        )  # fmt: skip


def other_model(engine: Engine, store: Store, name: str, over: str) -> DeploymentRecord | None:
    """The model to compare with; None for the query alone."""
    if over == QUERY:
        return None
    records = DeploymentRecords(engine, store)
    if over in ROLES:
        alias = Aliases(engine, store).find(name)
        if alias is None:
            return None
        over = alias.model_of(over)
    return records.get(records.model_called(over))


def _feature_doubts(
    engine: Engine, store: Store, featureset: FeatureSet, question: LiveSearches
) -> list[ResultWarning]:
    """Doubts about the judgments from the features of judged documents, on a sample of queries."""
    rng = np.random.default_rng(question.seed)
    queries = [
        question.queries[number]
        for number in np.sort(rng.permutation(len(question.queries))[:_SAMPLED]).tolist()
    ]

    def features_of(number: int) -> tuple[list[str], list[float], np.ndarray]:
        query = queries[number]
        grades = dict(zip(query.doc_ids, map(float, query.grades), strict=True))
        some = np.random.default_rng(number).permutation(query.doc_ids)[:_MOST_DOCUMENTS]
        sample = {"params": query.params, "document_ids": some.tolist()}
        ids, features = logged(engine, store, featureset, question.index, sample)
        return [query.query_id] * len(ids), [grades[name] for name in ids], features

    with RequestThreads(min(question.in_flight, len(queries))) as workers:
        found = [one for one in workers.map(features_of, range(len(queries))) if one[0]]
    if not found:
        return []
    ids, grades, features = zip(*found, strict=True)
    data = make_dataset(
        np.concatenate(features), np.concatenate(grades), np.concatenate(ids).tolist(),
        feature_names=featureset.feature_names,
    )  # fmt: skip
    return judgment_warnings(data, text_scores(featureset))
