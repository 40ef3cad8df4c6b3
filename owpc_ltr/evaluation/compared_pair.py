"""A pair of rankers, compared by one metric: its figures in tables, and the verdict in words.

A test that is repeated finds a difference by chance. A file in the user's state folder has a line
for each comparison: which queries (a sketch of their ids), and a digest of what was compared, by
which the same comparison is recognised. No text, id or figure is kept. Queries of which another
comparison had most, or all and some more, are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Vector
from owpc_ltr.evaluation.prediction_powered import Estimate, PredictionPowered
from owpc_ltr.evaluation.resampling import LEVEL
from owpc_ltr.evaluation.significance import Comparison, Outcome, ResultWarning, Verdict, decide
from owpc_ltr.signatures import in_python
from owpc_ltr.text import ShortRepr, text_table


@dataclass(frozen=True, repr=False)
class ComparedPair(ShortRepr):
    """Two rankers by one metric; differences are a − b.

    `p_holm` is the permutation test's p, corrected over all pairs and metrics of the result (Holm
    1979). `warnings` are those about the judgments; the sample's own are the comparison's. Where
    there are human labels of a sample and proxy labels of all queries, the comparison is by the
    human labels alone, and the prediction-powered figures decide. Where documents are unjudged,
    `left_out` is the comparison without them, `as_judged` that in which they are as good as judged
    ones at their rank. Ranker a is better only by more than the `smallest_gain`.
    """

    a: str
    b: str
    metric: str
    comparison: Comparison
    p_holm: float
    higher_is_better: bool = True
    warnings: tuple[ResultWarning, ...] = ()
    prediction_powered: PredictionPowered | None = None
    left_out: Comparison | None = None
    as_judged: Comparison | None = None
    smallest_gain: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The verdict on ranker a."""
        return self._decided()

    @property
    def outcome_of_figures(self) -> Outcome:
        """What the figures say, whatever makes them doubtful."""
        return self._decided(by_figures=True).outcome

    def _decided(self, *, by_figures: bool = False) -> Verdict:
        both = self.prediction_powered
        figures: Comparison | Estimate = self.comparison if both is None else both.by_both
        p, own = (self.p_holm, self.comparison) if both is None else (both.p_holm, both)
        return decide(
            figures.low, figures.high, p, () if by_figures else (*self.warnings, *own.warnings),
            higher_is_better=self.higher_is_better, smallest_gain=self.smallest_gain,
        )  # fmt: skip

    @property
    def better(self) -> str | None:
        """The better ranker; None without a difference, or where it cannot be told."""
        return {Outcome.BETTER: self.a, Outcome.WORSE: self.b}.get(self.verdict.outcome)

    @property
    def by_human_labels(self) -> ComparedPair:
        """The same pair by human labels alone; a pair without proxy labels itself."""
        both = self.prediction_powered
        if both is None:
            return self
        return replace(self, warnings=(*self.warnings, *both.warnings), prediction_powered=None)

    @property
    def gained(self) -> int:
        """How many queries a ranks better than b."""
        return self.comparison.wins if self.higher_is_better else self.comparison.losses

    @property
    def lost(self) -> int:
        """How many queries a ranks worse than b."""
        return self.comparison.losses if self.higher_is_better else self.comparison.wins

    def reversed(self) -> ComparedPair:
        """The same pair with ranker b first."""
        both = self.prediction_powered
        return replace(
            self,
            a=self.b,
            b=self.a,
            comparison=self.comparison.reversed(),
            left_out=None if self.left_out is None else self.left_out.reversed(),
            as_judged=None if self.as_judged is None else self.as_judged.reversed(),
            prediction_powered=None if both is None else both.reversed(),
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON: of the comparison, or the prediction-powered ones."""
        both = self.prediction_powered
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            **(self.comparison.as_dict() if both is None else both.as_dict()),
            "p_holm": self.p_holm if both is None else both.p_holm,
            "verdict": self.verdict.as_dict(),
            "better": self.better,
        }


JUDGED = "on judged documents"

"""What a verdict is of, where rankers were shown nothing else."""


def verdict_line(verdict: Verdict, a: str, b: str, metric: str, *, judged: bool = False) -> str:
    """The verdict on ranker a against b, by the metric that decides.

    `judged`: the rankers were shown judged documents alone, which users may never see.
    """
    pair = f"{a} against {b} by {metric}"
    if verdict.warnings:
        return f"{verdict.outcome}: {'; '.join(one.line for one in verdict.warnings)} ({pair})"
    claims = verdict.outcome is not Outcome.NO_DIFFERENCE
    return f"{verdict.outcome}{f' {JUDGED}' if judged and claims else ''}: {pair}"


def measured_live_by(names: Sequence[str]) -> str:
    """The command or call that measures live results."""
    call = "cluster.compare_live([…], judgments=…, query_template=…)"
    if not in_python():
        call = f"owpc-ltr compare-live {' '.join(names)} --judgments FILE --query-template FILE"
    return f"measure what users get: {call}"


def verdict_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """The verdict on each pair of rankers, a line each: metrics of one outcome stand together."""
    by_names: dict[str, dict[str, list[str]]] = {}
    for pair, words in zip(pairs, outcomes_of(pairs), strict=True):
        outcomes = by_names.setdefault(f"{pair.a} against {pair.b}", {})
        outcomes.setdefault(words, []).append(pair.metric)
    lines: dict[str, list[str]] = {}
    for names, outcomes in by_names.items():
        line = "; ".join(f"by {_listed(metrics)} {words}" for words, metrics in outcomes.items())
        lines.setdefault(line, []).append(names)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def outcomes_of(pairs: Sequence[ComparedPair]) -> list[str]:
    """The outcome of each pair, with its reason where that differs from pair to pair.

    A reason that is the same for all stands in the first line of the comparison.
    """
    shared = len({pair.verdict.reason for pair in pairs}) == 1
    return [str(pair.verdict.outcome if shared else pair.verdict) for pair in pairs]


def disagreements(pairs: Sequence[ComparedPair], split: str = "all") -> list[str]:
    """A line for each pair whose interval and corrected test disagree, with the reason.

    `split` says which queries they are.
    """
    return [
        f"interval and test disagree for {pair.a} − {pair.b} in {pair.metric}, and a difference "
        f"needs both: {why}"
        for pair in pairs
        if (why := disagreement(pair.comparison, pair.p_holm, split))
    ]


SMALL_GAIN = 0.002

"""A gain below it is real, and no user sees it."""


def small_gain_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """A line for each pair whose difference is significant, and too small to matter."""
    return [
        f"{pair.a} against {pair.b}: a difference of {pair.comparison.mean_difference:+.4f} in "
        f"{pair.metric} is below {SMALL_GAIN}, which users hardly see"
        for pair in pairs
        if pair.better is not None and abs(pair.comparison.mean_difference) < SMALL_GAIN
    ]


def disagreement(pair: Comparison, p: float, split: str = "all") -> str:
    """Why interval and test, whose p is corrected, disagree; empty where they agree."""
    if (p < LEVEL) != pair.includes_zero:
        return ""
    if pair.only_floor:
        return _floor_line(pair, split)
    if pair.includes_zero and pair.p_t < LEVEL:
        return "the test assumes symmetric differences, the interval allows for skewed ones"
    if pair.includes_zero:
        return (
            f"the differences vary too much for the interval, as for a t-test (p = {pair.p_t:.4f})"
        )
    if pair.p_permutation < LEVEL:
        return (
            f"the interval is of its pair alone, p = {pair.p_permutation:.4f} is {p:.4f} when "
            "corrected for all comparisons: compare fewer rankers or metrics"
        )
    return f"p of the permutation test is {pair.p_permutation:.4f} even without correction"


def _floor_line(pair: Comparison, split: str) -> str:
    """What so few queries cannot show, how many could, and how to get these."""
    n, mean = pair.n_queries, pair.mean_difference
    floor = mean - pair.low if mean > 0 else pair.high - mean
    # Rounded: 15.999… queries are 16, which are still too few.
    enough = int(round(n * floor / abs(mean), 9)) + 1
    more = ""
    if split == "test":
        call = "`train(…, folds=5)`" if in_python() else "train --folds 5"
        more = f", or count the training queries, too ({call})"
    return (
        f"{n:,} queries cannot show a difference below {floor:.4f} ({n * floor:.3g} / queries): at "
        f"{mean:+.4f} it takes {enough:,} or more: judge more queries{more}"
    )


def corrected_over(count: int, earlier: int = 0, split: str = "") -> str:
    """Over how many comparisons p is corrected; `earlier` ones were made on these queries."""
    doubled = "; p is doubled, as models of folds stand for the model" if split == "folds" else ""
    if earlier:
        before = f"{earlier} earlier {'comparison' if earlier == 1 else 'comparisons'}"
        return f"p corrected over {count} comparisons (Holm) and {before} on these queries{doubled}"
    words = f"p corrected over {count} comparisons (Holm)" if count > 1 else "one comparison"
    return f"{words}{doubled}"


def detectable_line(pairs: Sequence[ComparedPair]) -> str:
    """How large a true difference would probably be found, by metric."""
    sizes: dict[str, list[float]] = {}
    for pair in pairs:
        sizes.setdefault(pair.metric, []).append(pair.comparison.detectable)
    parts = []
    for metric, of_pairs in sizes.items():
        low, high = f"{min(of_pairs):.4f}", f"{max(of_pairs):.4f}"
        parts.append(f"{metric} {low}" if low == high else f"{metric} {low} to {high}, by pair")
    return f"minimum detectable difference (80 % power, each pair alone): {'; '.join(parts)}"


def wins_ties_losses(pair: ComparedPair) -> str:
    """How many queries the first ranker wins, draws and loses."""
    return f"{pair.gained}/{pair.comparison.ties}/{pair.lost}"


def _listed(names: Sequence[str]) -> str:
    """As in "map, mrr and ndcg@10"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def pair_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str]) -> str:
    """A row for each pair, its rankers by their letters."""
    headers = ("METRIC", "PAIR", "DIFF", "LOW", "HIGH", "P", "P (T)", "P HOLM", "W/T/L")
    rows = [
        (
            pair.metric,
            f"{letters[pair.a]} − {letters[pair.b]}",
            *map("{:+.4f}".format, (one.mean_difference, one.low, one.high)),
            *map(_p, (one.p_permutation, one.p_t, pair.p_holm)),
            wins_ties_losses(pair),
        )
        for pair in pairs
        for one in [pair.comparison]
    ]
    return text_table(headers, rows)


def label_table(pairs: Sequence[ComparedPair], letters: Mapping[str, str]) -> str:
    """For each pair with proxy labels, a row by both kinds of labels, and one by each alone."""
    rows = [
        (
            pair.metric,
            f"{letters[pair.a]} − {letters[pair.b]}",
            labels,
            *map("{:+.4f}".format, (one.mean, one.low, one.high)),
            _p(one.p),
        )
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for labels, one in (
            ("both", both.by_both), ("human", both.by_human), ("proxy, biased", both.by_proxy),
        )
    ]  # fmt: skip
    return text_table(("METRIC", "PAIR", "LABELS", "DIFF", "LOW", "HIGH", "P"), rows)


def label_lines(pairs: Sequence[ComparedPair]) -> list[str]:
    """What proxy labels of all queries add to human ones: a line for each pair."""
    if not pairs:
        return []
    lines = [
        f"{pair.metric} {pair.a} − {pair.b}: {one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}] by "
        f"{both.n_human:,} human-labelled and {both.n_queries:,} proxy-labelled queries; "
        f"{strength_in_words(both)}"
        for pair in pairs
        for both in [pair.prediction_powered]
        if both is not None
        for one in [both.by_both]
    ]
    by = f"by human and proxy labels, {corrected_over(len(pairs))}:"
    return [*lines, by, *verdict_lines(pairs)]


def strength_in_words(figures: PredictionPowered) -> str:
    """How much proxy labels help, and how many more human labels would be enough."""
    strength = "λ = 0: the proxy labels do not help"
    if figures.strength:
        worth = f"{figures.n_worth:,.0f} human-labelled queries"
        strength = f"λ = {figures.strength:.2f}, worth {worth}"
    if figures.n_more is None:
        more = "human labels of all these queries would not be enough at this spread"
    elif figures.n_more == 0:
        more = "no more human labels are needed"
    else:
        more = f"some {figures.n_more:,} more human-labelled queries would be enough at this spread"
    return f"{strength}; {more}"


def ranker_letters(names: Sequence[str]) -> dict[str, str]:
    """A short name for each ranker: A to Z, then A2 and so on."""
    return {
        name: chr(65 + n % 26) + (str(n // 26 + 1) if n >= 26 else "")
        for n, name in enumerate(names)
    }


def _p(value: float) -> str:
    """A p-value; one that would round to 0 is never 0."""
    return f"{value:.4f}" if value >= 0.00005 else "<.0001"


_SKETCH = 64

"""How many of the smallest hashes of a set's ids are kept: they tell how far two sets overlap."""

_MOSTLY = 0.5

_LONGEST = 5_000

"""Older comparisons are forgotten."""

_DIGITS = 9


def earlier_comparisons(query_ids: pa.StringArray, tests: Sequence[tuple[Vector, Vector]]) -> int:
    """How many other comparisons were made on these queries before; these are written down.

    A test has both rankers' values of each query. Where the file cannot be read or written,
    nothing is known of others.
    """
    sketch = sketch_of(query_ids)
    now = {_digest(*test) for test in tests}
    path = comparisons_file()
    try:
        lines = path.read_text().splitlines() if path.exists() else []
        same = _tests_on(sketch, lines)
        new = [json.dumps({**sketch, "test": test}) for test in sorted(now.difference(same))]
        if new:
            _write(path, lines, new)
    except OSError:
        return 0
    # Made again, a comparison says what it said the first time.
    first = min((same.index(test) for test in now if test in same), default=len(same))
    return len(set(same[:first]))


def sketch_of(query_ids: pa.StringArray) -> dict[str, Any]:
    """A set of queries as `comparisons_on` finds it again: its size, and its smallest hashes."""
    hashes = sorted(_number(one) for one in set(query_ids.to_pylist()))
    return {"n": len(hashes), "sketch": [f"{one:016x}" for one in hashes[:_SKETCH]]}


def comparisons_on(sketch: Mapping[str, Any]) -> int:
    """How many comparisons were made so far on the queries of a sketch.

    Raises OSError where the file cannot be read.
    """
    path = comparisons_file()
    return len(set(_tests_on(sketch, path.read_text().splitlines() if path.exists() else [])))


def same_queries(sketch: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether most of the queries of one of two sketches are queries of the other, too."""
    return _overlap(sketch, other) >= _MOSTLY


def corrected_for(earlier: int) -> float:
    """What p is multiplied by after so many comparisons on the same queries.

    Whoever goes on until there is a difference makes one comparison after another: their errors
    add up. Of 100 such series, 9 to 47 end in a false "better" without a factor, 3 to 13 with
    1 + k, and 3 to 8 with this one (20 variants, 20 tuned variants, 25 more queries at a time; 400
    worlds each, t-tests).
    """
    return float((1 + earlier) ** 1.5)


def comparisons_file() -> Path:
    """The file of all comparisons of this user, or that of the environment's OWPC_LTR_COMPARISONS.

    A team that shares one file counts the comparisons of all.
    """
    import platformdirs

    named = os.environ.get("OWPC_LTR_COMPARISONS")
    if named:
        return Path(named)
    return platformdirs.user_state_path("owpc-ltr", appauthor=False) / "comparisons.jsonl"


def _tests_on(sketch: Mapping[str, Any], lines: Sequence[str]) -> list[str]:
    """The comparisons of these lines that were made on the queries of a sketch."""
    comparisons = [made for line in lines if (made := _read(line)) is not None]
    return [str(made["test"]) for made in comparisons if same_queries(made, sketch)]


def _write(path: Path, lines: Sequence[str], new: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(lines) + len(new) <= _LONGEST:
        # One write at the end of the file: other processes may do the same.
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in new))
        return
    from owpc_ltr.files.output import write_output

    newest = [*lines, *new][-_LONGEST // 2 :]
    write_output(path, "".join(f"{line}\n" for line in newest).encode())


def _number(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _digest(one: Vector, other: Vector) -> str:
    """Of two rankers' values, whichever stands first."""
    parts = sorted(np.round(values, _DIGITS).tobytes() for values in (one, other))
    return hashlib.blake2b(b"".join(parts), digest_size=8).hexdigest()


def _read(line: str) -> dict[str, Any] | None:
    """A line of the file; None where it is damaged."""
    try:
        made = json.loads(line)
        sound = isinstance(made["n"], int) and isinstance(made["sketch"], list) and made["test"]
    except (ValueError, TypeError, KeyError):
        return None
    return made if sound else None


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """About which share of the smaller set of queries is in the other one."""
    a, b = set(one["sketch"]), set(other["sketch"])
    union = sorted(a | b)[:_SKETCH]
    shared = sum(each in a and each in b for each in union) / max(1, len(union))
    sizes: int = one["n"] + other["n"]
    return shared / (1.0 + shared) * sizes / max(1, min(int(one["n"]), int(other["n"])))
