"""Every check over data in files or parts, in bounded memory, and the cheap ones, a line each.

Slips in grades, and queries that teach nothing, are told here by the totals alone. `train` and
`log-features` make the cheap checks in passing; two trials of training are `inspect`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.partitioned.dataset import in_memory
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.evaluation.judged_data import shares_right
from owpc_ltr.inspection import thresholds
from owpc_ltr.inspection.columns import (
    constant_columns,
    duplicate_columns,
    missing_values,
    outliers,
)
from owpc_ltr.inspection.labels import harmful_judgments, label_agreement, no_irrelevant_grade
from owpc_ltr.inspection.moved_columns import moved_columns
from owpc_ltr.inspection.result import (
    CHECKS,
    NOTE,
    WARNING,
    Canary,
    DataFigures,
    FeatureRow,
    Finding,
    Inspection,
    LearningCurve,
)
from owpc_ltr.inspection.sample import Data, Sample, same_queries, take_sample, together
from owpc_ltr.inspection.totals import Tails, Totals, contradicting_grades, limits_of, totals_of
from owpc_ltr.protocols import Run

_GRADES = 50


def all_checks(
    named: Mapping[str, Data], run: Run, *, training: bool, curve: bool | None
) -> Inspection:
    """What is wrong with the data of these names, which stand for files or sides of a split.

    With `training` trials are made, and a `curve`; where that is None, of data of moderate size.

    All rows are passed once; values are compared on a sample of whole queries. Raises BadInput
    where the data have different features, UsageError for a curve of more than memory holds.
    """
    (name, first), *others = named.items()
    for other_name, other in others:
        if other.feature_names != first.feature_names:
            raise BadInput(
                f"{name} and {other_name} have different features ({first.n_features} and "
                f"{other.n_features}): inspect them one by one"
            )
    run.progress("looking at a sample", None)
    sample = take_sample(named)
    data = sample.data
    rows = sum(side.n_documents for side in named.values())
    run.progress("looking at all rows", None)
    totals, tails = totals_of(named, limits_of(data.features, rows))
    run.progress("comparing columns", None)
    irrelevant = list(no_irrelevant_grade(data, totals.grades))
    findings = [
        *irrelevant,
        *same_queries(totals.identities, list(named)),
        *harmful_judgments(data),
        *label_agreement(sample),
        *constant_columns(totals.columns, data.feature_names),
        *_checks_of_values(totals, tails, sample),
        *moved_columns(sample),
    ]
    canary, learning_curve = None, None
    # The learner of the trials has two grades: of relevant documents alone it would see one.
    if training and not irrelevant and not np.isinf(data.features).any():
        canary, learning_curve, more = _trials(named, sample, run, curve)
        findings += more
    ordered = _worst_first(_unexplained(findings))
    features = _features(totals, sample, ordered)
    return Inspection(_figures(named, totals, sample), features, ordered, canary, learning_curve)


def _unexplained(findings: list[Finding]) -> list[Finding]:
    """The findings without those that follow from another: of shuffled labels no order is right."""
    warned = {one.check for one in findings if one.severity == WARNING}
    of_some = warned & {"inverted-labels", "partly-shuffled-labels"}
    explained = {"worse-than-random"} if of_some or "shuffled-labels" in warned else set()
    explained |= {"shuffled-labels"} if of_some else set()
    return [one for one in findings if one.check not in explained]


def _trials(
    named: Mapping[str, Data], sample: Sample, run: Run, curve: bool | None
) -> tuple[Canary | None, LearningCurve | None, list[Finding]]:
    """What training shows, with its findings, and notes on what was left out."""
    from owpc_ltr.inspection import trials

    learn = trials.default_learner(run.seed)
    run.progress("shuffled labels", None)
    try:
        canary = trials.canary(sample.data, learn, run.seed)
    except OwpcLtrError as why:
        # Grades beyond any gain, say: whatever it is, the findings are wanted all the more.
        return None, None, [_left_out(f"labels were not tried: {why}")]
    if canary is None:
        return None, None, [_left_out("labels were not tried: too few queries have contrast")]
    findings = [*trials.canary_findings(canary)]
    cells = sum(data.n_documents * data.n_features for data in named.values())
    if curve is False:
        return canary, None, findings
    if curve is None and trials.cells_read(cells) > thresholds.TRIAL_CELLS:
        note = _left_out(
            "no learning curve was made: of so many values it takes more than about 10 seconds",
            "ask for it with --learning-curve",
        )
        return canary, None, [*findings, note]
    data = together([in_memory(side, "a learning curve") for side in named.values()])
    reason = f"it takes {trials.FEWEST} queries at least"
    learned = None
    try:
        learned = trials.learning_curve(data, learn, run)
    except OwpcLtrError as why:
        reason = str(why)
    if learned is None:
        findings.append(_left_out(f"no learning curve was made: {reason}"))
    return canary, learned, findings


def _left_out(what: str, advice: str = "") -> Finding:
    return Finding("not-looked-at", NOTE, "trials", what, advice)


def _figures(named: Mapping[str, Data], totals: Totals, sample: Sample) -> DataFigures:
    lengths = np.repeat([*totals.lengths], [*totals.lengths.values()])
    cells = max(totals.documents * len(totals.digests), 1)
    return DataFigures(
        names=tuple(named),
        queries=totals.queries,
        documents=totals.documents,
        features=len(totals.digests),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        grades=tuple(sorted(totals.grades.items())[:_GRADES]),
        without_contrast=totals.alike,
        of_one_document=totals.lengths[1],
        missing=float(totals.columns.missing.sum() / cells),
        parts=totals.parts,
        sampled=sample.data.n_queries,
    )


def _features(
    totals: Totals, sample: Sample, findings: tuple[Finding, ...]
) -> tuple[FeatureRow, ...]:
    facts, right = totals.columns, shares_right(sample.data)
    return tuple(
        FeatureRow(
            name,
            float(facts.missing[column] / max(facts.rows, 1)),
            float(facts.lowest[column]),
            _quartiles(sample.data.features[:, column]),
            highest=float(facts.highest[column]),
            alone=float(right[column]),
            checks=tuple(dict.fromkeys(one.check for one in findings if name in one.columns)),
        )
        for column, name in enumerate(sample.data.feature_names)
    )


def _quartiles(values: NDArray[np.float32]) -> tuple[float, float, float]:
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    first, second, third = np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf").tolist()
    return first, second, third


def warnings_before_training(data: RankingDataset) -> list[str]:
    """What is wrong with data in memory, and would harm a model of them.

    Constant columns are told after training, of all that was trained on.
    """
    harmful = [*harmful_judgments(data)]
    if data.n_queries < thresholds.FEWEST_QUERIES or not data.n_features:
        return _lines(harmful)
    sample = take_sample({"": data})
    agreement = [] if np.isinf(sample.data.features).any() else [*label_agreement(sample)]
    if agreement:
        harmful = [one for one in harmful if one.check != "worse-than-random"]
    return _lines([*harmful, *agreement, *_of_values(data, sample)])


def warnings_after_log(data: RankingDataset) -> list[str]:
    """What is wrong with the values that were logged; `train` tells of judgments."""
    if data.n_queries < thresholds.FEWEST_QUERIES or not data.n_features:
        return []
    return _lines(_of_values(data, take_sample({"": data})))


def _of_values(data: RankingDataset, sample: Sample) -> list[Finding]:
    limits = limits_of(sample.data.features, data.n_documents)
    return list(_checks_of_values(*totals_of({"": data}, limits, identify=False), sample))


def _checks_of_values(totals: Totals, tails: Tails, sample: Sample) -> Iterator[Finding]:
    """The checks that one pass over all rows, and a few of these, decide."""
    names = sample.data.feature_names
    yield from contradicting_grades(totals, sample.data)
    yield from _grade_typos(totals)
    yield from _queries_without_contrast(totals)
    yield from missing_values(totals, sample, names)
    yield from outliers(totals, tails, names)
    yield from duplicate_columns(totals.digests, totals.columns, sample.data.features, names)


def _lines(findings: list[Finding]) -> list[str]:
    return [one.line for one in _worst_first(findings) if one.severity == WARNING]


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Warnings before notes, each by what its check may cost; else in the order given."""
    return tuple(sorted(findings, key=lambda f: (f.severity != WARNING, CHECKS.index(f.check))))


def _grade_typos(totals: Totals) -> Iterator[Finding]:
    """A finding for each grade that looks like a slip; measurements have none."""
    levels = sorted(totals.grades)
    if not 2 < len(levels) <= thresholds.LEVELS:
        return
    most = max(1, int(thresholds.FEW * totals.documents))
    rare = [level for level in levels if totals.grades[level] <= most]
    usual = [level for level in levels if level not in rare]
    # Those above a gap that is wider than others allow.
    gaps = np.diff(levels)
    widest = int(np.argmax(gaps))
    is_far = gaps[widest] > thresholds.GAP_OF_GRADES * np.delete(gaps, widest).max()
    far = levels[widest + 1 :] if is_far else []
    whole = all(level == int(level) for level in usual)
    for level in rare:
        if not (level in far or (whole and level != int(level) and usual)):
            continue
        ids = tuple(dict.fromkeys(totals.grade_ids.get(level, ())))
        others = [other for other in levels if other != level]
        count = totals.grades[level]
        times = "once" if count == 1 else f"{count:,} times"
        where = f", as of query '{ids[0]}'" if ids else ""
        yield Finding(
            "grade-typo",
            WARNING,
            subject=f"grade {level:g}",
            message=f"the grade {level:g} stands {times}{where}; all others are {others[0]:g} to "
            f"{others[-1]:g}",
            advice="check that it is meant: gains grow with the grade, and such a document "
            "dominates training",
            queries=ids,
            row=totals.grade_rows.get(level),
        )


def _queries_without_contrast(totals: Totals) -> Iterator[Finding]:
    """A finding on each kind, a warning where there are many."""
    kinds = (
        (
            "one-document-queries",
            thresholds.ONE_DOCUMENT,
            (totals.lengths[1], totals.single_ids, "one document"),
            "judge more documents of them: there is no order to learn, and any metric is perfect",
        ),
        (
            "no-contrast",
            thresholds.WITHOUT_CONTRAST,
            (totals.alike, totals.alike_ids, "documents of one grade only"),
            "training passes over them: judge further documents, or grade finer",
        ),
    )
    for check, limit, (count, ids, what), advice in kinds:
        if not count:
            continue
        share = count / totals.queries
        many = share > limit and totals.queries >= thresholds.FEWEST_QUERIES
        several = "1 query has" if count == 1 else f"{count:,} queries have"
        yield Finding(
            check,
            WARNING if many else NOTE,
            f"{count:,} queries",
            f"{several} {what} ({share:.1%}), as '{ids[0]}'",
            advice=advice,
            queries=tuple(ids),
        )
