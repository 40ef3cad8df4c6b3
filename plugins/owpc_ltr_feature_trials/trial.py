"""A kind of model by folds of the queries, with and without some features.

The kind is the one that `train` would take without the new features, with the settings that are
best for it then: what is compared differs in its features alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.data.blocks import WARNING, Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import clusters_of
from owpc_ltr.evaluation.rules import machine_labels
from owpc_ltr.evaluation.significance import Comparison, ResultWarning, decide, few_queries, holm
from owpc_ltr.files.output import finite_json
from owpc_ltr.inspection.checks import column_ranks, harmful_judgments, standardised_within_queries
from owpc_ltr.inspection.measures import column_facts, constant_columns, query_of_rows
from owpc_ltr.protocols import Run
from owpc_ltr.training.fitting import check_trainable
from owpc_ltr.training.fold_fits import FOLDS, QueryFolds
from owpc_ltr.training.kinds import SUMMED, allowed_loss, compare_kinds, fit_kinds, kinds
from owpc_ltr.training.plan import Plan
from owpc_ltr_feature_trials.new_columns import TrialLog

_ALIKE = 0.5
"""A new feature may replace the old one most like it if their ranks correlate at least so much."""


@dataclass(frozen=True)
class FeatureDifference:
    """The difference that some features make to the metric.

    `p` is corrected for the comparisons of its table (Holm).
    """

    features: str
    comparison: Comparison
    p: float
    outcome: str


@dataclass(frozen=True, repr=False)
class FeatureTrial(BlockResult):
    """What new features add to a model (`gains`), and what each one is `worth`, where asked."""

    metric: str
    kind: str
    why: str
    queries: int
    mean: float
    log: TrialLog | None
    gains: tuple[FeatureDifference, ...]
    worth: tuple[FeatureDifference, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return dict(finite_json(asdict(self)))

    def _blocks(self) -> Iterator[Block]:
        if self.log is not None:
            yield from self.log.sentences()
        yield (
            f"{self.kind}: {self.why}; {self.metric} {self.mean:.4f} with "
            f"{'all' if self.log is None else 'the old'} features, over {self.queries:,} queries "
            f"that are not held out, each ranked by one of {FOLDS} models that did not see it"
        )
        if self.gains:
            yield from ("", _table("WITH", "GAIN", self.gains))
        if self.worth:
            yield from ("", _table("FEATURE", "LOSS WITHOUT IT", self.worth))
            yield "several features left out together may lose more: leave out one at a time"
        yield from (f"{WARNING}{warning}" for warning in self.warnings)


def _table(first: str, second: str, differences: tuple[FeatureDifference, ...]) -> Table:
    rows = []
    for each in differences:
        found = each.comparison
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        gain = f"{found.mean_difference:+.4f}"
        rows.append((each.features, gain, interval, each.p, each.outcome))
    return Table((first, second, "95 %", "P", ""), rows)


class _Folds:
    """A kind of model with its settings, fitted by the same folds to several sets of columns."""

    def __init__(
        self, data: RankingDataset, new: set[str], make: Callable[..., Plan], run: Run
    ) -> None:
        """Choose the kind and its settings without the new columns."""
        old = data.select_features([name for name in data.feature_names if name not in new])
        self.data, self.run, self.clusters = data, run, clusters_of(old)
        self.queries = QueryFolds.of(old, check_trainable(old))
        candidates = [kind for kind in kinds(make, data.n_features) if "engine" in kind.runs_in]
        self.fitted, self.choice = compare_kinds(self.queries, candidates, "engine", run)
        self.sign = 1.0 if self.fitted.metric.higher_is_better else -1.0
        self.name, is_sum = self.choice.kind.name, self.choice.kind.plan is None
        self.kinds = [
            kind if kind.plan is None else replace(kind, plan=self.fitted.fits[kind.name].plan)
            for kind in candidates
            if kind.name == self.name or (is_sum and kind.name in SUMMED)
        ]

    def without(self, left_out: set[str]) -> Vector:
        """The metric of each query by models without some columns."""
        names = [name for name in self.data.feature_names if name not in left_out]
        data = self.data.select_features(names)
        queries = replace(self.queries, data=data, facts=check_trainable(data))
        what = f"without {', '.join(sorted(left_out)) or 'none of the features'}"
        return fit_kinds(queries, self.kinds, self.run, what).by_query(self.name)

    def compared(self, a: Vector, b: Vector) -> Comparison:
        """Models of two sets of columns, query by query."""
        return self.fitted.compared(a, b, self.clusters, self.run.seed)

    def is_little(self, loss: Comparison) -> bool:
        """Whether it is no more than `train` allows to a simpler kind."""
        return self.sign * loss.mean_difference <= allowed_loss(loss)


def try_features(
    data: RankingDataset, log: TrialLog | None, make: Callable[..., Plan], run: Run, *, drop: bool
) -> FeatureTrial:
    """What the new columns of the data add, and, with `drop`, what each column is worth."""
    new = set(() if log is None else log.features)
    folds = _Folds(data, new, make, run)
    warnings = [*machine_labels(data), *few_queries(len(np.unique(folds.clusters)))]
    warnings += [
        ResultWarning(each.check, each.message, each.advice, each.columns, ": ")
        for each in harmful_judgments(data)
    ]
    # Of each comparison: the new features, and the old ones that they replace.
    added = [name for name in data.feature_names if name in new]
    tried = {name: ({name}, set[str]()) for name in added}
    if len(new) > 1:
        tried = {"all together": (new, set()), **tried}
    for name, like in _most_like(data, new).items():
        tried[f"{name} in place of {like}"] = {name}, {like}

    def outcome(label: str, gain: Comparison, p: float) -> str:
        names, replaced = tried[label]
        own = [warning for warning in warnings if not {*warning.columns} & (new - names)]
        verdict = decide(gain.low, gain.high, p, own, higher_is_better=folds.sign > 0)
        if not replaced or verdict.warnings:
            return str(verdict.outcome)
        return f"{'replaces' if folds.is_little(gain.reversed()) else 'needs'} {min(replaced)}"

    base = folds.without(new)
    gains = {
        label: folds.compared(folds.without(new - names | replaced), base)
        for label, (names, replaced) in tried.items()
    }
    whole = folds.without(set()) if drop and new else base
    columns = data.feature_names if drop else ()
    losses = {name: folds.compared(whole, folds.without({name})) for name in columns}
    facts = column_facts(data.select_features(added).features)
    constant = [f"{each.message}: {each.advice}" for each in constant_columns(facts, added)]
    return FeatureTrial(
        metric=str(folds.fitted.metric),
        kind=folds.name,
        why=folds.choice.why,
        queries=data.n_queries,
        mean=folds.fitted.values[folds.name],
        log=log,
        gains=_differences(gains, outcome),
        worth=_differences(
            dict(sorted(losses.items(), key=lambda item: -folds.sign * item[1].mean_difference)),
            lambda _, loss, __: "may be left out" * folds.is_little(loss),
        ),
        warnings=(*(each.line for each in warnings), *constant),
    )


def _differences(
    compared: Mapping[str, Comparison], outcome: Callable[[str, Comparison, float], str]
) -> tuple[FeatureDifference, ...]:
    corrected = holm(np.array([each.p_permutation for each in compared.values()])).tolist()
    return tuple(
        FeatureDifference(name, each, p, outcome(name, each, p))
        for (name, each), p in zip(compared.items(), corrected, strict=True)
    )


def _most_like(data: RankingDataset, new: set[str]) -> dict[str, str]:
    """The old column that a new one may replace: most like it by its ranks within queries."""
    by_query = query_of_rows(data)[:, None] * (data.n_documents + 1.0)
    ranks = standardised_within_queries(column_ranks(column_ranks(data.features) + by_query), data)
    ranks /= np.maximum(np.linalg.norm(ranks, axis=0), 1.0)
    old = [column for column, name in enumerate(data.feature_names) if name not in new]
    alike = np.abs(ranks.T @ ranks[:, old])
    return {
        name: data.feature_names[old[int(row.argmax())]]
        for name, row in zip(data.feature_names, alike, strict=True)
        if name in new and row.max() >= _ALIKE
    }
