"""A kind of model by folds of the queries, with and without some features.

The kind is the one that `train` would take without the new features. With other features its
settings are chosen anew, for each fold by the others. Where one feature after another is left out,
they are those chosen with all, so that it stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from owpc_ltr.data.blocks import WARNING, Block, BlockResult, Table
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.splits import clusters_of
from owpc_ltr.evaluation.judged_data import judgment_warnings
from owpc_ltr.evaluation.rules import machine_labels
from owpc_ltr.evaluation.significance import Comparison, ResultWarning, decide, few_queries, holm
from owpc_ltr.files.output import finite_json
from owpc_ltr.inspection.checks import column_ranks, harmful_judgments, standardised_within_queries
from owpc_ltr.inspection.measures import column_facts, constant_columns, query_of_rows
from owpc_ltr.protocols import Run
from owpc_ltr.training.fitting import check_trainable
from owpc_ltr.training.fold_fits import FOLDS, TOLERANCE, QueryFolds
from owpc_ltr.training.kinds import (
    SUMMED,
    FittedKinds,
    Kind,
    allowed_loss,
    compare_kinds,
    fit_kinds,
    kinds,
)
from owpc_ltr.training.plan import Plan
from owpc_ltr_feature_trials.new_columns import TrialLog

_ALIKE = 0.5
"""A new feature may replace the old one most like it if their ranks correlate at least so much."""

_EXACT = 1e-4


@dataclass(frozen=True)
class FeatureDifference:
    """The metric of a model of some features, and its difference from another one.

    `p` is corrected for the comparisons of its table (Holm); None where the outcome is no verdict.
    """

    features: str
    mean: float
    difference: float
    low: float
    high: float
    p: float | None
    outcome: str

    @property
    def cells(self) -> tuple[Any, ...]:
        """The cells of a table."""
        interval = f"[{self.low:+.4f}, {self.high:+.4f}]"
        p = "" if self.p is None else f"{self.p:.3f}" if self.p >= 0.0005 else "<.001"
        return self.features, f"{self.difference:+.4f}", interval, p, self.outcome


@dataclass(frozen=True)
class NewFeature:
    """A new feature: milliseconds a search, the share of missing values, and the old one like it.

    `correlation` is that of ranks within queries.
    """

    name: str
    milliseconds: float | None
    missing: float
    like: str
    correlation: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a table."""
        cost = "" if self.milliseconds is None else f"{self.milliseconds:.2f}"
        return self.name, cost, f"{self.missing:.1%}", self.like, f"{self.correlation:+.2f}"


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
    features: tuple[NewFeature, ...]
    worth: tuple[FeatureDifference, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return dict(finite_json(asdict(self)))

    def _blocks(self) -> Iterator[Block]:
        if self.log is not None:
            yield from _log_lines(self.log)
        old = "all" if self.log is None else "the old"
        yield (
            f"{self.kind}: {self.why}; {self.metric} {self.mean:.4f} with {old} features, over "
            f"{self.queries:,} queries that are not held out, each ranked by one of {FOLDS} models "
            "that did not see it"
        )
        if self.gains:
            headers = ("WITH", "GAIN", "95 %", "P", "")
            yield from ("", Table(headers, [each.cells for each in self.gains]))
            headers = ("NEW FEATURE", "COSTS MS", "MISSING", "MOST LIKE", "CORRELATION")
            yield from ("", Table(headers, [each.cells for each in self.features]))
        if self.worth:
            headers = ("FEATURE", "LOSS WITHOUT IT", "95 %", "P", "")
            yield from ("", Table(headers, [each.cells for each in self.worth]))
            yield (
                "loss: by the settings that were chosen with all features. Leave features out one "
                "at a time, or `train(max_features=N)`: several together may lose more"
            )
        yield from (f"{WARNING}{warning}" for warning in self.warnings)


def _log_lines(log: TrialLog) -> Iterator[Block]:
    time = (
        "" if log.old_seconds is None else f" ({log.old} old ones: about {log.old_seconds:.1f} s)"
    )
    yield (
        f"{', '.join(log.features)}: logged for {log.documents:,} documents in "
        f"{log.seconds:.1f} s{time}"
    )
    yield from (f"{count:,} documents are left out: {why}" for why, count in log.left_out.items())
    yield (
        f"{WARNING}'{log.index}' is not in the state of the data ({log.change}): log everything "
        "again before you train on old and new features"
        if log.change
        else f"'{log.index}' is in the state in which the data were logged"
    )


class _Folds:
    """A kind of model, fitted by the same folds to one set of columns after another."""

    def __init__(
        self, data: RankingDataset, new: Collection[str], make: Callable[..., Plan], runs_in: str,
        run: Run,
    ) -> None:  # fmt: skip
        """Choose the kind without the new features."""
        self.data, self.run = data, run
        old = data.select_features([name for name in data.feature_names if name not in new])
        self.queries = QueryFolds.of(old, check_trainable(old))
        self.clusters = clusters_of(old)
        every = kinds(make, data.n_features)
        candidates = [_exact(kind) for kind in every if runs_in in kind.runs_in]
        self.base, self.choice = compare_kinds(self.queries, candidates, runs_in, run)
        kind = self.choice.kind
        fitted = {kind.name, *(SUMMED if kind.plan is None else ())}
        self.kinds = [each for each in candidates if each.name in fitted]
        self.sign = 1.0 if self.base.metric.higher_is_better else -1.0

    def without(
        self, left_out: Collection[str], like: FittedKinds | None = None, number: str = ""
    ) -> FittedKinds:
        """The kind without some columns, by the settings of other fits where these are given."""
        names = [name for name in self.data.feature_names if name not in left_out]
        data = self.data.select_features(names)
        chosen = [
            each if like is None or each.plan is None
            else replace(each, plan=like.fits[each.name].plan)
            for each in self.kinds
        ]  # fmt: skip
        queries = replace(self.queries, data=data, facts=check_trainable(data))
        what = f"without {', '.join(left_out)}" if left_out else "with all features"
        return fit_kinds(queries, chosen, self.run, f"{number}{what}")

    def compared(self, first: FittedKinds, other: FittedKinds) -> Comparison:
        """Two fits of the kind, query by query."""
        a, b = (fits.by_query(self.choice.kind.name) for fits in (first, other))
        return self.base.compared(a, b, self.clusters, self.run.seed)

    def loses_little(self, loss: Comparison) -> bool:
        """Whether it is no more than `train` allows to a simpler kind, and not significant."""
        return self.sign * loss.mean_difference <= allowed_loss(loss) and (
            loss.includes_zero or self.sign * loss.mean_difference < 0
        )


def _exact(kind: Kind) -> Kind:
    """The kind fitted so exactly that a column more changes no fit by itself."""
    if kind.plan is None or not kind.plan.chooses_by_default:
        return kind
    return replace(
        kind, plan=replace(kind.plan, settings={**kind.plan.settings, TOLERANCE: _EXACT})
    )


def try_features(
    data: RankingDataset,
    log: TrialLog | None,
    make: Callable[..., Plan],
    runs_in: str,
    run: Run,
    *,
    drop: bool,
) -> FeatureTrial:
    """What the new columns of the data add, and, with `drop`, what each column is worth."""
    names = () if log is None else log.features
    folds = _Folds(data, names, make, runs_in, run)
    old = folds.queries.data
    shared = [*machine_labels(old), *judgment_warnings(old)]
    shared += few_queries(len(np.unique(folds.clusters)))
    everything, gains, features, found = folds.base, [], [], []
    if log is not None:
        features, everything = [*_new_features(data, log)], folds.without(())
        found = _found_in(data.select_features(names))
        gains = [*_gains(folds, features, everything, found, shared)]
    kind = folds.choice.kind.name
    return FeatureTrial(
        metric=str(folds.base.metric),
        kind=kind,
        why=folds.choice.why,
        queries=data.n_queries,
        mean=folds.base.values[kind],
        log=log,
        gains=tuple(gains),
        features=tuple(features),
        worth=tuple(_worth(folds, everything)) if drop else (),
        warnings=tuple(warning.line for warning in (*found, *shared)),
    )


def _found_in(columns: RankingDataset) -> list[ResultWarning]:
    """What is wrong with new features: those that know the grade, and those that say nothing."""
    found = [
        *harmful_judgments(replace(columns, manifest=None)),
        *constant_columns(column_facts(columns.features), columns.feature_names),
    ]
    return [
        ResultWarning(
            *(each.check, each.message, each.advice, each.columns, ": "),
            decides=each.check != "constant-column",
        )
        for each in found
        if each.columns
    ]


def _gains(
    folds: _Folds,
    features: Sequence[NewFeature],
    everything: FittedKinds,
    found: Sequence[ResultWarning],
    shared: Sequence[ResultWarning],
) -> Iterator[FeatureDifference]:
    """All new features, each one alone where they are several, and in place of the old one."""
    names = [each.name for each in features]
    fits = {tuple(names): everything}
    if len(names) > 1:
        fits |= {(name,): folds.without({*names} - {name}) for name in names}
    compared = {tried: folds.compared(fit, folds.base) for tried, fit in fits.items()}
    corrected = holm(np.array([each.p_permutation for each in compared.values()]))
    for (tried, each), p in zip(compared.items(), corrected.tolist(), strict=True):
        own = [warning for warning in found if {*warning.columns} & {*tried}]
        verdict = decide(
            *(each.low, each.high, p, [*own, *shared]),
            higher_is_better=folds.sign > 0,
        )
        label = "all together" if len(tried) > 1 else tried[0]
        yield _row(label, each, str(verdict.outcome), p)
    for feature in features:
        if abs(feature.correlation) >= _ALIKE:
            others = {*names, feature.like} - {feature.name}
            each = folds.compared(folds.without(others), folds.base)
            replaces = folds.loses_little(each.reversed())
            outcome = f"replaces {feature.like}" if replaces else f"does not replace {feature.like}"
            yield _row(f"{feature.name} in place of {feature.like}", each, outcome)


def _worth(folds: _Folds, everything: FittedKinds) -> Iterator[FeatureDifference]:
    """What is lost without each column, most first."""
    whole = folds.without((), everything)
    names = whole.queries.data.feature_names
    compared = {
        name: folds.compared(
            whole, folds.without((name,), everything, f"{number} of {len(names)}: ")
        )
        for number, name in enumerate(names, 1)
    }
    corrected = holm(np.array([each.p_permutation for each in compared.values()]))
    p_values = dict(zip(compared, corrected.tolist(), strict=True))
    for name, each in sorted(
        compared.items(), key=lambda item: -folds.sign * item[1].mean_difference
    ):
        yield _row(name, each, "may be left out" * folds.loses_little(each), p_values[name])


def _row(
    features: str, each: Comparison, outcome: str, p: float | None = None
) -> FeatureDifference:
    return FeatureDifference(
        *(features, each.mean_a, each.mean_difference, each.low, each.high, p, outcome)
    )


def _new_features(data: RankingDataset, log: TrialLog) -> Iterator[NewFeature]:
    """The new features, each with the old one whose ranks within queries are most like its own."""
    by_query = query_of_rows(data)[:, None] * (data.n_documents + 1.0)
    ranks = standardised_within_queries(column_ranks(column_ranks(data.features) + by_query), data)
    lengths = np.linalg.norm(ranks, axis=0)
    ranks /= np.where(lengths > 0, lengths, 1.0)
    correlations = ranks.T @ ranks
    correlations[:, np.isin(data.feature_names, log.features)] = 0.0
    for name in log.features:
        column = data.feature_names.index(name)
        best = int(np.argmax(np.abs(correlations[column])))
        correlation = float(correlations[column, best])
        yield NewFeature(
            name,
            log.milliseconds.get(name),
            float(np.isnan(data.features[:, column]).mean()),
            data.feature_names[best] if correlation else "",
            correlation,
        )
