"""Explanation: why the documents of one list are where they are, as text, HTML and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from owpc_ltr.arrays import Fields, Matrix, Vector
from owpc_ltr.data.blocks import Bars, Block, html_of, text_table, wrapped_text
from owpc_ltr.errors import UsageError
from owpc_ltr.explanations.contributions import TreePath, contributions, in_words, paths
from owpc_ltr.files.output import finite_json
from owpc_ltr.models.combined import ReorderingModel
from owpc_ltr.protocols import ExplainingReordering, ListTerm, Model
from owpc_ltr.text import ShortRepr, cut, message_line


@dataclass(frozen=True, repr=False)
class ScorePart(ShortRepr):
    """A term of a score that is no feature's, such as what the list around a document did to it.

    `amount` is in the score's units. Where a reranker multiplies scores, `logarithm` is the term as
    it learned it, of the factor. `documents` are those of the list that added most to the amount,
    each with what it added; there may be others.
    """

    name: str
    amount: float
    logarithm: float | None = None
    documents: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The part as JSON."""
        documents = [{"document_id": name, "amount": amount} for name, amount in self.documents]
        return {**asdict(self), "documents": documents}


@dataclass(frozen=True)
class Term:
    """A feature or a part, and what it contributes; `value` is a feature's, NaN where missing."""

    name: str
    contribution: float
    value: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedHit(ShortRepr):
    """One document: where it is, and what each feature contributes to its score.

    The baseline of the explanation, the `contributions` (n_features) and the amounts of the `parts`
    add up to `score`, as it was served, but for what 32 bits lose; where they do not, the
    explanation warns. `rank_before` is the rank without the model, None where that is not known.
    `how` says by what each feature acts here (a weight, a curve, so many splits), `paths` what a
    document took in the heaviest trees: both are empty where only the best are listed.
    """

    document_id: str
    title: str
    rank: int
    rank_before: int | None
    score: float
    feature_names: tuple[str, ...]
    values: Vector
    contributions: Vector
    parts: tuple[ScorePart, ...] = ()
    how: tuple[str, ...] = ()
    paths: tuple[TreePath, ...] = ()

    def terms(self) -> tuple[Term, ...]:
        """All features and parts that contribute anything, the largest first."""
        rows = zip(self.feature_names, self.contributions, self.values, strict=True)
        terms = [Term(name, float(amount), float(value)) for name, amount, value in rows]
        terms += [Term(part.name, part.amount) for part in self.parts]
        terms.sort(key=lambda term: -abs(term.contribution))
        return tuple(term for term in terms if term.contribution != 0)

    def largest(self, n: int) -> tuple[Term, ...]:
        """The `n` terms that contribute most, in size, the largest first."""
        return self.terms()[:n]

    def rest(self, n: int) -> float:
        """What all other terms contribute together."""
        return float(sum(term.contribution for term in self.terms()[n:]))

    def as_dict(self) -> dict[str, Any]:
        """The hit as JSON; the value of a missing feature is null."""
        rows = zip(self.feature_names, self.values, self.contributions, strict=True)
        features = [
            {
                "feature": name,
                "value": float(value),
                "contribution": float(contribution),
                **({"how": self.how[column]} if self.how else {}),
            }
            for column, (name, value, contribution) in enumerate(rows)
        ]
        content: dict[str, Any] = {
            "document_id": self.document_id,
            "title": self.title,
            "rank": self.rank,
            "rank_before": self.rank_before,
            "score": self.score,
            "features": features,
            "parts": [part.as_dict() for part in self.parts],
            **({"paths": [path.as_dict() for path in self.paths]} if self.paths else {}),
        }
        return dict(finite_json(content))


LISTED = 5
"""Terms of a hit in a list; the others are summed."""


def heading(hit: ExplainedHit) -> str:
    """Where a document is, and where it was without the model."""
    before = "" if hit.rank_before is None else f" (was {hit.rank_before})"
    return f"{hit.rank}{before}  {_called(hit.title, hit.document_id)}  {hit.score:.6g}"


def _named(feature: str) -> str:
    """The feature of a term; one whose name is a number is said to be one.

    >>> _named("8"), _named("title")
    ('feature 8', 'title')
    """
    return f"feature {feature}" if feature.isdecimal() else feature


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why the documents of one query are where they are.

    `query` is its words or its id, `model` a name. `hits` are the best of a list of `documents`,
    the best first, or the one that was asked for. `baseline` is the part of every score that is no
    feature's (an intercept, a mean score); `method` says in words how a score was shared out.
    `mean_contributions` (n_features) are over the whole list.
    """

    query: str
    model: str
    kind: str
    feature_names: tuple[str, ...]
    hits: tuple[ExplainedHit, ...]
    baseline: float
    method: str
    documents: int
    mean_contributions: Vector
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON."""
        means = zip(self.feature_names, self.mean_contributions.tolist(), strict=True)
        content = {
            "query": self.query,
            "model": self.model,
            "kind": self.kind,
            "method": self.method,
            "documents": self.documents,
            "baseline": self.baseline,
            "mean_contributions": dict(means),
            "hits": [hit.as_dict() for hit in self.hits],
            "warnings": list(self.warnings),
        }
        return dict(finite_json(content))

    def __str__(self) -> str:
        """All of it: one document fully where one was asked for, else the hits of the list."""
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        lines = [f"'{self.query}' by {self.model}: {self.method}"]
        for hit in self.hits:
            terms = [f"baseline {self.baseline:.4g}"]
            terms += [f"{_named(t.name)} {t.contribution:+.4g}" for t in hit.largest(LISTED)]
            if len(hit.terms()) > LISTED:
                terms.append(f"others {hit.rest(LISTED):+.4g}")
            lines.append(f"{heading(hit)} = {', '.join(terms)}")
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        """The hits with bars; all terms of a hit that stands alone."""
        blocks: list[Block] = [f"{self.query} by {self.model}"]
        for hit in self.hits:
            terms = hit.largest(LISTED) if len(self.hits) > 1 else hit.terms()
            rows = [(term.name, term.contribution) for term in terms]
            if len(hit.terms()) > len(rows):
                rows.append(("others", hit.rest(len(rows))))
            blocks += [heading(hit), Bars(("feature", "adds"), rows, form="{:+.4g}")]
        blocks.append(f"baseline {self.baseline:.4g}; {self.method}")
        return html_of([*blocks, *(f"warning: {warning}" for warning in self.warnings)])


_NAME, _NUMBER, _BARS = 28, 10, 24


def _lines(explanation: Explanation) -> Iterator[str]:
    if not explanation.hits:
        yield f"nothing matches: {explanation.query}"
    elif explanation.hits[0].how:
        yield from _document_lines(explanation)
    else:
        yield from _hit_lines(explanation)
        yield ""
        yield wrapped_text(f"baseline {explanation.baseline:.4g}; {explanation.method}")
    for message in explanation.warnings:
        yield f"warning: {message_line(message)}"


def _hit_lines(explanation: Explanation) -> Iterator[str]:
    """Each hit and, below it, bars of what adds most to its score; all of one scale."""
    hits = explanation.hits
    amounts = [term.contribution for hit in hits for term in hit.largest(LISTED)]
    amounts += [hit.rest(LISTED) for hit in hits]
    for hit in hits:
        yield _heading(hit)
        for term in hit.largest(LISTED):
            yield _bar_line(term.name, term.value, term.contribution, amounts)
        others = len(hit.terms()[LISTED:])
        if others:
            name = f"{others} other{'s'[: others != 1]}"
            yield _bar_line(name, None, hit.rest(LISTED), amounts)


def _heading(hit: ExplainedHit) -> str:
    """A document's rank, how far the model has moved it (▲3, ▼1 or =), its title and score."""
    move = ""
    if hit.rank_before is not None:
        steps = hit.rank_before - hit.rank
        move = f"{'▲' if steps > 0 else '▼'}{abs(steps)}" if steps else "="
    title = _called(hit.title, hit.document_id)
    start, end = f"{hit.rank:>2} {move} ", f"  {hit.score:.4f}"
    room = 80 - len(start) - len(end)
    return f"{start}{cut(title, room)}{end}"


def _bar_line(name: str, value: float | None, amount: float, amounts: list[float]) -> str:
    line = (
        f"   {cut(name, _NAME).ljust(_NAME)} {_value(value).rjust(_NUMBER)} "
        f"{f'{amount:+.4g}'.rjust(_NUMBER)} {bar(amount, amounts)}"
    )
    return line.rstrip()


def bar(amount: float, amounts: list[float], width: int = _BARS) -> str:
    """A bar to the right of an axis, or to its left; the axis lets the largest of all fit.

    >>> bar(2.0, [2.0, -1.0], 6), bar(-1.0, [2.0, -1.0], 6)
    ('  ████', '██')
    """
    low, high = -min(0.0, *amounts), max(0.0, *amounts)
    if not math.isfinite(low + high) or low + high == 0:
        return ""
    left = round(width * low / (low + high))
    length = round(width * abs(amount) / (low + high))
    drawn = "█" * length
    return " " * (left - length) + drawn if amount < 0 else " " * left + drawn


def _document_lines(explanation: Explanation) -> Iterator[str]:
    """One document: every feature, what the list did, and the heaviest trees."""
    (hit,) = explanation.hits
    yield f"{_heading(hit)}\nrank {hit.rank} of {explanation.documents}, by {explanation.model}\n"
    yield _feature_table(explanation, hit)
    for part in hit.parts:
        logarithm = "" if part.logarithm is None else f" ({part.logarithm:+.4g} in logs)"
        who = ", ".join(f"{name} {amount:+.4g}" for name, amount in part.documents)
        most = f": most of it {who}" if who else ""
        yield wrapped_text(f"{part.name} adds {part.amount:+.4g}{logarithm}{most}")
    features, parts = float(hit.contributions.sum()), sum(part.amount for part in hit.parts)
    sums = f"baseline {explanation.baseline:.4g}, features {features:+.4g}"
    yield f"\n{sums}{f', the list {parts:+.4g}' if hit.parts else ''} = {hit.score:.4f}"
    yield wrapped_text(explanation.method)
    for path in hit.paths:
        splits = ", ".join(map(str, path.splits))
        gives = f"gives {path.output:+.4g} (mean {path.mean_output:+.4g})"
        yield ""
        yield wrapped_text(f"tree {path.tree} {gives}: {splits}")


def _feature_table(explanation: Explanation, hit: ExplainedHit) -> str:
    """Every feature, the largest first: its value, what it adds, and what it adds in the mean."""
    amounts: list[float] = hit.contributions.tolist()
    order = sorted(range(len(amounts)), key=lambda column: -abs(amounts[column]))
    # Terms that cancel leave a rounding error, which counts as 0.
    least = 1e-9 * max(map(abs, amounts), default=0.0)
    return text_table(
        ["FEATURE", "VALUE", "BY", "ADDS", "MEAN", ""],
        [
            (
                hit.feature_names[column],
                _value(float(hit.values[column])),
                hit.how[column],
                _signed(amounts[column], least),
                _signed(float(explanation.mean_contributions[column]), least),
                bar(amounts[column], amounts, 10),
            )
            for column in order
        ],
    )


def _called(title: str, document: str) -> str:
    return title if title == document else f"{title} [{document}]"


def _signed(amount: float, least: float) -> str:
    return f"{amount:+.4g}" if abs(amount) > least else "0"


def _value(value: float | None) -> str:
    if value is None:
        return ""
    return "missing" if math.isnan(value) else f"{value:.4g}"


LUMP = "the list"
TERMS_TOLERANCE = 1e-6
"""How far terms may be from what a list did, of the range of the scores."""
_NAMED = 3
"""How many documents a part names."""


def list_terms(
    ranker: ReorderingModel, features: Matrix, fields: Fields
) -> tuple[list[ListTerm], str, tuple[str, ...]]:
    """The terms of one list, how they were computed, and warnings; no term of a base alone.

    A reranker that does not explain its lists, or explains them by terms that do not add up, is
    explained by one term.
    """
    if ranker.reordering is None:
        return [], "", ()
    base = ranker.base.score(features)
    scores = ranker.reordering.rerank(features, base, None, fields)
    lump = [ListTerm(LUMP, scores - base)]
    name = ranker.reranker
    if not isinstance(ranker.reordering, ExplainingReordering):
        return lump, f"reranker {name} as one term: what the list added to the base score", ()
    terms = list(ranker.reordering.explain(features, base, fields))
    if not add_up(terms, scores - base):
        warning = (
            f"the terms by which reranker '{name}' explains its lists do not add up to its scores: "
            "they are shown as one"
        )
        return lump, f"reranker {name} as one term", (warning,)
    return terms, f"reranker {name} by its own terms", ()


def add_up(terms: Sequence[ListTerm], moved: Vector) -> bool:
    """Whether amounts are one number a document each, which add up to what a list did."""
    if any(np.shape(term.amounts) != moved.shape for term in terms):
        return False
    total = np.sum([term.amounts for term in terms], axis=0) if terms else np.zeros(len(moved))
    allowed = TERMS_TOLERANCE * max(float(np.ptp(moved)), float(np.abs(moved).max()), 1e-300)
    # NaN must not pass the comparison.
    return bool((np.abs(total - moved) <= allowed).all())


def part_of(term: ListTerm, row: int, ids: Sequence[str]) -> ScorePart:
    """A term of one document, and who added most to it."""
    documents: tuple[tuple[str, float], ...] = ()
    if term.by_document is not None:
        added: Any = np.asarray(term.by_document)[row]
        largest = np.argsort(-np.abs(added), kind="stable")[:_NAMED].tolist()
        documents = tuple((ids[j], float(added[j])) for j in largest if added[j] != 0)
    logarithm = None if term.logarithms is None else float(term.logarithms[row])
    return ScorePart(term.name, float(term.amounts[row]), logarithm, documents)


SCORE_TOLERANCE = 1e-5
"""How far a served score may be from the explained one: what uploads allow, relative above 1."""


@dataclass(frozen=True, eq=False)
class ServedList:
    """The documents of one query as they were served, best first, with features and scores.

    `query` and `model` are names to show. `ranks_before` are the ranks without the model, None
    where they are not known. `fields` are the document fields that a reranker reads.
    """

    query: str
    model: str
    doc_ids: Sequence[str]
    titles: Sequence[str]
    features: Matrix
    scores: Vector
    ranks_before: Sequence[int | None]
    fields: Fields = field(default_factory=dict)

    def place(self, document: str) -> int:
        """Where a document is, from 0. Raises UsageError where it is not."""
        if document not in self.doc_ids:
            raise UsageError(
                f"document '{document}' is not among the {len(self.doc_ids)} documents of "
                f"'{self.query}': ask for a larger window, or check its id"
            )
        return list(self.doc_ids).index(document)


def explain_list(
    ranker: Model | ReorderingModel,
    listed: ServedList,
    *,
    size: int | None = None,
    document: str | None = None,
) -> Explanation:
    """Why the best `size` documents of a list are where they are; or fully one `document`.

    Raises UsageError for a document that is not in the list, Refused for a kind of model that is
    not known.
    """
    place = None if document is None else listed.place(document)
    base = ranker.base if isinstance(ranker, ReorderingModel) else ranker
    shares = contributions(base, listed.features)
    amounts, method = shares.amounts, shares.method
    means = amounts.mean(axis=0) if len(amounts) else np.zeros(amounts.shape[1])
    terms: Sequence[ListTerm] = []
    warnings: tuple[str, ...] = ()
    if isinstance(ranker, ReorderingModel):
        terms, how, warnings = list_terms(ranker, listed.features, listed.fields)
        method = f"{method}; {how}" if how else method
    explained = shares.scores + sum((term.amounts for term in terms), np.zeros(1))

    def hit(row: int) -> ExplainedHit:
        values = listed.features[row]
        return ExplainedHit(
            document_id=listed.doc_ids[row],
            title=listed.titles[row],
            rank=row + 1,
            rank_before=listed.ranks_before[row],
            score=float(listed.scores[row]),
            feature_names=ranker.feature_names,
            values=values.astype(np.float64),
            contributions=amounts[row],
            parts=tuple(part_of(term, row, listed.doc_ids) for term in terms),
            how=() if place is None else in_words(base, values),
            paths=() if place is None else paths(base, values, listed.features),
        )

    rows = range(len(listed.doc_ids))[:size] if place is None else [place]
    return Explanation(
        query=listed.query,
        model=listed.model,
        kind=ranker.kind,
        feature_names=ranker.feature_names,
        hits=tuple(map(hit, rows)),
        baseline=shares.baseline,
        method=method,
        documents=len(listed.doc_ids),
        mean_contributions=means,
        warnings=(*warnings, *_difference_warning(listed, explained)),
    )


def _difference_warning(listed: ServedList, explained: Vector) -> tuple[str, ...]:
    """The warning where served scores are not the explained ones."""
    apart = np.abs(listed.scores - explained) / np.maximum(1.0, np.abs(explained))
    # NaN must not pass the comparison.
    apart = np.where(np.isnan(apart), np.inf, apart)
    if not (apart > SCORE_TOLERANCE).any():
        return ()
    worst = int(apart.argmax())
    return (
        f"what was served is not what is explained: document '{listed.doc_ids[worst]}' has "
        f"the score {listed.scores[worst]:.6g}, and its terms add up to {explained[worst]:.6g} "
        f"({int((apart > SCORE_TOLERANCE).sum())} documents differ): prove the model again with "
        "owpc-ltr verify",
    )
