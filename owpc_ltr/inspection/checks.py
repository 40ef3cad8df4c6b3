"""Every check over data in files or parts, in bounded memory, and the cheap ones, a line each.

Slips in grades, and queries that teach nothing, are told here by the totals alone. `train` and
`log-features` make the cheap ones in passing; two trials of training are `inspect`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

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
from owpc_ltr.inspection.labels import (
    harmful_judgments,
    label_agreement,
    no_irrelevant_grade,
)
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
from owpc_ltr.inspection.sample import (
    Data,
    Sample,
    moved_columns,
    same_queries,
    swapped_columns,
    take_sample,
    together,
)
from owpc_ltr.inspection.thresholds import FEWEST_QUERIES, TRIAL_CELLS
from owpc_ltr.inspection.totals import (
    Gathered,
    Tails,
    contradicting_grades,
    gather,
    limits_of,
)
from owpc_ltr.inspection.units import unit_changes
from owpc_ltr.protocols import Run

if TYPE_CHECKING:
    from owpc_ltr.inspection.trials import Learn

_GRADES = 50


def all_checks(
    named: Mapping[str, Data], run: Run, *, training: bool, curve: bool | None
) -> Inspection:
    """What is wrong with the data of these names, which stand for files or sides of a split.

    With `training` trials are made, and a `curve`; where that is None, of data of moderate size.

    All rows are passed once; values are compared on a sample of whole queries. Raises BadInput
    where the data have different features, UsageError for a curve of more than memory holds.
    """
    _check_alike(named)
    run.progress("looking at a sample", None)
    sample = take_sample(named)
    rows = sum(data.n_documents for data in named.values())
    run.progress("looking at all rows", None)
    found, tails = gather(named, limits_of(sample.data.features, rows))
    run.progress("comparing columns", None)
    irrelevant = list(no_irrelevant_grade(sample.data, found.grades))
    findings = [
        *irrelevant,
        *same_queries(found.identities, list(named)),
        *harmful_judgments(sample.data),
        *label_agreement(sample),
        *constant_columns(found.columns, sample.data.feature_names),
        *checks_of_values(found, tails, sample),
        *_moved(sample),
    ]
    # The learner of the trials has two grades: of relevant documents alone it would see one.
    training = training and not irrelevant and not np.isinf(sample.data.features).any()
    tried, grown, notes = _tried(named, sample, run, curve) if training else (None, None, [])
    if tried is not None:
        from owpc_ltr.inspection.trials import canary_findings

        findings += canary_findings(tried)
    ordered = worst_first(_unexplained([*findings, *notes]))
    return Inspection(
        _figures(named, found, sample), _features(found, sample, ordered), ordered, tried, grown
    )


def _unexplained(findings: list[Finding]) -> list[Finding]:
    """The findings without those that follow from another: of shuffled labels no order is right."""
    warned = {one.check for one in findings if one.severity == WARNING}
    of_some = warned & {"inverted-labels", "partly-shuffled-labels"}
    explained = {"worse-than-random"} if of_some or "shuffled-labels" in warned else set()
    explained |= {"shuffled-labels"} if of_some else set()
    return [one for one in findings if one.check not in explained]


def _check_alike(named: Mapping[str, Data]) -> None:
    """Refuse data of different features."""
    (name, first), *others = named.items()
    for other_name, other in others:
        if other.feature_names != first.feature_names:
            raise BadInput(
                f"{name} and {other_name} have different features ({first.n_features} and "
                f"{other.n_features}): inspect them one by one"
            )


def _moved(sample: Sample) -> Iterator[Finding]:
    """Exchanges first: two columns of one shape that were exchanged look like changed units."""
    moved = moved_columns(sample)
    swaps = list(swapped_columns(sample, moved))
    yield from swaps
    exchanged = {name for one in swaps for name in one.columns}
    yield from unit_changes(sample, moved, exchanged)


def _tried(
    named: Mapping[str, Data], sample: Sample, run: Run, wanted: bool | None
) -> tuple[Canary | None, LearningCurve | None, list[Finding]]:
    """What training shows, and notes on what was left out."""
    from owpc_ltr.inspection.trials import canary, default_learner

    learn = default_learner(run.seed)
    run.progress("shuffled labels", None)
    try:
        tried = canary(sample.data, learn, run.seed)
    except OwpcLtrError as why:
        # Grades beyond any gain, say: whatever it is, the findings are wanted all the more.
        return None, None, [_left_out(f"labels were not tried: {why}", "")]
    if tried is None:
        return None, None, [_left_out("labels were not tried: too few queries have contrast", "")]
    curve, why_not = _curve(named, learn, run, wanted)
    return tried, curve, [] if why_not is None else [why_not]


def _curve(
    named: Mapping[str, Data], learn: Learn, run: Run, wanted: bool | None
) -> tuple[LearningCurve | None, Finding | None]:
    from owpc_ltr.inspection.trials import FEWEST, cells_read, learning_curve

    cells = sum(data.n_documents * data.n_features for data in named.values())
    if wanted is False:
        return None, None
    if wanted is None and cells_read(cells) > TRIAL_CELLS:
        return None, _left_out(
            "no learning curve was made: of so many values it takes more than about 10 seconds",
            "ask for it with --learning-curve",
        )
    data = together([in_memory(each, "a learning curve") for each in named.values()])
    try:
        curve = learning_curve(data, learn, run)
    except OwpcLtrError as why:
        return None, _left_out(f"no learning curve was made: {why}", "")
    if curve is not None:
        return curve, None
    return None, _left_out(f"no learning curve was made: it takes {FEWEST} queries at least", "")


def _left_out(what: str, advice: str) -> Finding:
    return Finding("not-looked-at", NOTE, "trials", what, advice)


def _figures(named: Mapping[str, Data], found: Gathered, sample: Sample) -> DataFigures:
    lengths = np.repeat([*found.lengths], [*found.lengths.values()])
    cells = max(found.documents * len(found.digests), 1)
    return DataFigures(
        names=tuple(named),
        queries=found.queries,
        documents=found.documents,
        features=len(found.digests),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        grades=tuple(sorted(found.grades.items())[:_GRADES]),
        without_contrast=found.alike,
        of_one_document=found.lengths[1],
        missing=float(found.columns.missing.sum() / cells),
        parts=found.parts,
        sampled=sample.data.n_queries,
    )


def _features(
    found: Gathered, sample: Sample, findings: tuple[Finding, ...]
) -> tuple[FeatureRow, ...]:
    facts = found.columns
    right = shares_right(sample.data)
    rows = []
    for column, name in enumerate(sample.data.feature_names):
        rows.append(
            FeatureRow(
                name,
                float(facts.missing[column] / max(facts.rows, 1)),
                float(facts.lowest[column]),
                _quartiles(sample.data.features[:, column]),
                highest=float(facts.highest[column]),
                alone=float(right[column]),
                checks=tuple(dict.fromkeys(one.check for one in findings if name in one.columns)),
            )
        )
    return tuple(rows)


def _quartiles(values: NDArray[np.float32]) -> tuple[float, float, float]:
    there = values[~np.isnan(values)]
    if not len(there):
        return float("nan"), float("nan"), float("nan")
    first, second, third = np.quantile(there, (0.25, 0.5, 0.75), method="inverted_cdf").tolist()
    return first, second, third


def warnings_before_training(
    data: RankingDataset, text_features: Collection[str] | None = None
) -> list[str]:
    """What is wrong with data in memory, and would harm a model of them.

    Constant columns are told after training, of all that was trained on.
    """
    if data.n_queries < FEWEST_QUERIES or not data.n_features:
        return _lines([*harmful_judgments(data, text_features)])
    sample = take_sample({"": data})
    agreement = [] if np.isinf(sample.data.features).any() else [*label_agreement(sample)]
    harmful = [
        one
        for one in harmful_judgments(data, text_features)
        if not (agreement and one.check == "worse-than-random")
    ]
    return _lines([*harmful, *agreement, *_of_values(data, sample)])


def warnings_after_log(data: RankingDataset) -> list[str]:
    """What is wrong with the values that were logged; `train` tells of judgments."""
    if data.n_queries < FEWEST_QUERIES or not data.n_features:
        return []
    return _lines(_of_values(data, take_sample({"": data})))


def checks_of_values(found: Gathered, tails: Tails, sample: Sample) -> Iterator[Finding]:
    """The checks that one pass over all rows, and a few of these, decide."""
    names = sample.data.feature_names
    yield from contradicting_grades(
        sample.data, found.contradicting, found.contradicting_ids, found.documents
    )
    yield from grade_typos(found)
    yield from queries_without_contrast(found)
    yield from missing_values(found, sample, names)
    yield from outliers(found, tails, names)
    yield from duplicate_columns(found.digests, found.columns, sample.data.features, names)


def _of_values(data: RankingDataset, sample: Sample) -> list[Finding]:
    limits = limits_of(sample.data.features, data.n_documents)
    found, tails = gather({"": data}, limits, identify=False)
    return list(checks_of_values(found, tails, sample))


def _lines(findings: list[Finding]) -> list[str]:
    return [one.line for one in worst_first(findings) if one.severity == WARNING]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Warnings before notes, each by what its check may cost; else in the order given."""
    return tuple(sorted(findings, key=lambda f: (f.severity != WARNING, CHECKS.index(f.check))))


def grade_typos(found: Gathered) -> Iterator[Finding]:
    """A finding for each grade that looks like a slip; measurements have none."""
    levels = sorted(found.grades)
    if not 2 < len(levels) <= thresholds.LEVELS:
        return
    most = max(1, int(thresholds.FEW * found.documents))
    rare = [level for level in levels if found.grades[level] <= most]
    far = _far(levels)
    whole = all(level == int(level) for level in levels if level not in rare)
    for level in rare:
        others = [one for one in levels if one not in rare]
        if level in far or (whole and level != int(level) and others):
            yield _slip_finding(found, level, [one for one in levels if one != level])


def _far(levels: list[float]) -> list[float]:
    """The levels above a gap that is wider than others allow."""
    gaps = np.diff(levels)
    widest = int(np.argmax(gaps))
    others = np.delete(gaps, widest)
    far = gaps[widest] > thresholds.GAP_OF_GRADES * others.max()
    return levels[widest + 1 :] if far else []


def _slip_finding(found: Gathered, level: float, others: list[float]) -> Finding:
    ids = tuple(dict.fromkeys(found.grade_ids.get(level, ())))
    count = found.grades[level]
    where = f", as of query '{ids[0]}'" if ids else ""
    return Finding(
        "grade-typo",
        WARNING,
        subject=f"grade {level:g}",
        message=f"the grade {level:g} stands {'once' if count == 1 else f'{count:,} times'}"
        f"{where}; all others are {others[0]:g} to {others[-1]:g}",
        advice="check that it is meant: gains grow with the grade, and such a document dominates "
        "training",
        queries=ids,
        row=found.grade_rows.get(level),
    )


def queries_without_contrast(found: Gathered) -> Iterator[Finding]:
    """A finding on each kind, a warning where there are many."""
    kinds = (
        (
            "one-document-queries",
            thresholds.ONE_DOCUMENT,
            (found.lengths[1], found.single_ids, "one document"),
            "judge more documents of them: there is no order to learn, and any metric is perfect",
        ),
        (
            "no-contrast",
            thresholds.WITHOUT_CONTRAST,
            (found.alike, found.alike_ids, "documents of one grade only"),
            "training passes over them: judge further documents, or grade finer",
        ),
    )
    for check, limit, (count, ids, what), advice in kinds:
        if not count:
            continue
        share = count / found.queries
        many = share > limit and found.queries >= thresholds.FEWEST_QUERIES
        several = "1 query has" if count == 1 else f"{count:,} queries have"
        yield Finding(
            check,
            WARNING if many else NOTE,
            f"{count:,} queries",
            f"{several} {what} ({share:.1%}), as '{ids[0]}'",
            advice=advice,
            queries=tuple(ids),
        )
