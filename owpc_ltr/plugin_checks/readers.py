"""The contracts of judgment readers and of click models."""

from __future__ import annotations

import gzip
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.data.click_counts import ClickCounts, ClickLists
from owpc_ltr.data.judgments import JudgmentLines, group_judgments
from owpc_ltr.errors import BadInput, OwpcLtrError, OwpcLtrWarning
from owpc_ltr.files.input import read_head, shown
from owpc_ltr.host.click_fits import checked_fit, list_log_likelihoods
from owpc_ltr.host.judgment_lists import first_to_recognise, judgment_readers
from owpc_ltr.host.registry import Registry, installed
from owpc_ltr.plugin_checks.promises import Require
from owpc_ltr.protocols import ClickFit, ClickModel, JudgmentReader

_SLACK = 1e-9
_FEW, _MANY = 2_000, 20_000
_LONGEST = 5
_BY_CLICKS = ("clicked", "reached", "last", "value")

_ANSWERS = ("attractiveness", "trials", "examination", "prior")


def check_click_model(model: ClickModel, seed: int = 0) -> None:
    """Check everything that a click model promises, on simulated clicks whose truth is known.

    A fit is probabilities and counts of the right number, which its prior and trials can give; it
    changes nothing that it reads, and gives the same bits again; rows in another order change
    nothing but roundings. A pair that was never shown has the prior's mean and no trials, also
    where nobody ever clicked. One click more on a document never lowers it. What users click on
    comes out above what they pass by, the more surely the more there is to see, and as many clicks
    are predicted as there were. The likelihoods of all patterns of clicks on a list sum to one.
    Raises AssertionError.
    """
    require = Require("click-model", model)
    few, many = sample_clicks(_FEW, seed), sample_clicks(_MANY, seed)
    counts, rng = few.counts, np.random.default_rng(seed)
    fit, again = _fit(require, model, counts), checked_fit(model, counts)
    moved = checked_fit(model, counts.take(rng.permutation(len(counts.pair))))
    for name in _ANSWERS:
        first, same, reordered = (getattr(answer, name) for answer in (fit, again, moved))
        require.equal(same, first, f"gave two answers ({name})", rtol=0, atol=0)
        require.equal(
            reordered, first, f"depends on the order of rows ({name})", rtol=1e-6, atol=1e-9
        )
    _check_prior(require, fit)
    _check_unseen(require, model, counts)
    _check_more_clicks(require, model, counts, fit, rng)
    _check_truth(require, fit, few, checked_fit(model, many.counts), many)
    for size in range(1, _LONGEST + 1):
        total = np.exp(list_log_likelihoods(model, fit, click_patterns(size))).sum()
        require(
            abs(total - 1) < _SLACK,
            f"gives the {2**size} patterns of clicks on a list of {size} probabilities whose sum "
            f"is {total:.6g}, and must be 1: the chance of a click may depend on the clicks above "
            "it, and on no others",
        )


def _fit(require: Require, model: ClickModel, counts: ClickCounts) -> ClickFit:
    """The fit, which may change no array of the counts."""
    arrays = {name: array for name, array in vars(counts).items() if isinstance(array, np.ndarray)}

    def fit(*copies: NDArray[Any]) -> ClickFit:
        return checked_fit(model, replace(counts, **dict(zip(arrays, copies, strict=True))))

    result: ClickFit = require.answer(fit, arrays)
    return result


def _check_prior(require: Require, fit: ClickFit) -> None:
    successes = fit.attractiveness * (fit.trials + sum(fit.prior)) - fit.prior[0]
    odd = (successes < -1e-6) | (successes > fit.trials + 1e-6)
    which = int(odd.argmax())
    require(
        not odd.any(),
        f"gives {fit.attractiveness[which]:.6g} to a pair of {fit.trials[which]:.6g} trials, "
        f"which the prior {fit.prior} cannot give",
    )


def _check_unseen(require: Require, model: ClickModel, counts: ClickCounts) -> None:
    """The last pair of a sample was never shown."""
    nobody = replace(counts, **{name: 0 * getattr(counts, name) for name in _BY_CLICKS})
    for clicks, sample in (("", counts), (", where nobody clicked on anything,", nobody)):
        fit = checked_fit(model, sample)
        mean = fit.prior[0] / sum(fit.prior)
        require(
            abs(fit.attractiveness[-1] - mean) < _SLACK and fit.trials[-1] == 0,
            f"gives{clicks} {fit.attractiveness[-1]:.6g} with {fit.trials[-1]:g} trials to a pair "
            f"that was never shown, and the prior's mean is {mean:.6g}",
        )


def _check_more_clicks(
    require: Require,
    model: ClickModel,
    counts: ClickCounts,
    fit: ClickFit,
    rng: np.random.Generator,
) -> None:
    for row in rng.choice(np.flatnonzero(counts.clicked < counts.shown), 12, replace=False):
        added = (np.arange(len(counts.pair)) == row).astype(np.int64)
        # An impression that was passed on the way to another click, else the last of its list.
        new = added * (counts.reached <= counts.clicked)
        more = replace(
            counts,
            clicked=counts.clicked + added,
            value=counts.value + added,
            reached=counts.reached + new,
            last=counts.last + new,
        )
        before = fit.attractiveness[counts.pair[row]]
        after = checked_fit(model, more).attractiveness[counts.pair[row]]
        require(
            after >= before - _SLACK,
            f"lowers a document from {before:.6g} to {after:.6g} for one click more at rank "
            f"{counts.rank[row]}",
        )


def _check_truth(
    require: Require, little: ClickFit, few: ClickSample, much: ClickFit, many: ClickSample
) -> None:
    """Spearman's rank correlation with the truth, and the number of clicks predicted."""
    from scipy.stats import rankdata

    def likeness(first: Vector, second: Vector) -> float:
        ranks = rankdata([first, second], axis=1)
        return float(np.corrcoef(ranks)[0, 1]) if ranks.std(axis=1).all() else 0.0

    after_few = likeness(little.attractiveness, few.truth)
    after_many = likeness(much.attractiveness, many.truth)
    require(
        after_many > 0.6,
        "orders documents unlike their true attractiveness: the rank correlation is "
        f"{after_many:.3f} after {_MANY:,} sessions, and must be above 0.6",
    )
    require(
        after_many > after_few,
        f"learns nothing from more clicks: the rank correlation with the truth is "
        f"{after_few:.3f} after {_FEW:,} sessions and {after_many:.3f} after {_MANY:,}",
    )
    predicted = (many.counts.shown * much.click_probability(many.counts)).sum()
    clicks = many.counts.clicked.sum()
    what = "predicts clicks of the very lists that it was fitted to"
    require.equal(predicted, clicks, what, rtol=0.15)


_QUERIES, _DOCUMENTS, _SHOWN = 60, 10, 6
_ORDERS = 8
"""Different orders in which a query's documents are shown."""
_GRADES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""The shares of the grades 0 to 4, by whose gain 2^grade − 1 documents attract clicks."""


@dataclass(frozen=True, eq=False)
class ClickSample:
    """Counts of simulated clicks, and the true attractiveness of each of their pairs."""

    counts: ClickCounts
    truth: Vector


def sample_clicks(sessions: int, seed: int = 0) -> ClickSample:
    """Clicks of users who examine rank r with probability r^−½, on lists in random orders."""
    rng = np.random.default_rng(seed)
    gains = np.exp2(rng.choice(len(_GRADES), (_QUERIES, _DOCUMENTS), p=_GRADES)) - 1
    attraction = 0.05 + 0.75 * gains / (2 ** (len(_GRADES) - 1) - 1)
    orders = rng.permuted(np.tile(np.arange(_DOCUMENTS), (_ORDERS, _QUERIES, 1)), axis=2)
    query = rng.integers(0, _QUERIES, sessions)
    shown = orders[rng.integers(0, _ORDERS, sessions), query, :_SHOWN]
    examined = rng.random(shown.shape) < np.arange(1.0, _SHOWN + 1) ** -0.5
    clicked = examined & (rng.random(shown.shape) < attraction[query[:, None], shown])
    counts = _counts(query, query[:, None] * _DOCUMENTS + shown, clicked)
    return ClickSample(counts, np.append(attraction, 0.0)[counts.pair_document])


def _counts(
    query: NDArray[np.int64], document: NDArray[np.int64], clicked: NDArray[np.bool_]
) -> ClickCounts:
    """The counts of lists, a row each: its query, the documents by rank, which were clicked."""
    place = np.arange(_SHOWN)
    last = np.where(clicked, place, -1).max(axis=1, keepdims=True)
    events = (
        np.ones_like(clicked),
        clicked,
        (place <= last) | (last < 0),
        clicked & (place == last),
    )
    cells, row = np.unique(document * _SHOWN + place, return_inverse=True)
    # One document more of the last query, which was never shown.
    cells = np.append(cells, _QUERIES * _DOCUMENTS * _SHOWN)
    shown, clicks, reached, ends = (
        np.bincount(row.ravel(), event.ravel(), len(cells)).astype(np.int64) for event in events
    )
    pairs, pair = np.unique(cells // _SHOWN, return_inverse=True)
    return ClickCounts(
        queries=pa.array([f"query {number:02d}" for number in range(_QUERIES)]),
        documents=pa.array([f"d{number:03d}" for number in range(_QUERIES * _DOCUMENTS + 1)]),
        people=np.bincount(query, minlength=_QUERIES),
        pair_query=np.minimum(pairs // _DOCUMENTS, _QUERIES - 1),
        pair_document=pairs,
        pair=pair,
        rank=cells % _SHOWN + 1,
        shown=shown,
        clicked=clicks,
        reached=reached,
        last=ends,
        value=clicks.astype(np.float64),
    )


def click_patterns(size: int) -> ClickLists:
    """The first pairs, which are of one query, as a list: once with every pattern of clicks."""
    number = np.arange(2**size)
    clicked = (number[:, None] >> np.arange(size)) & 1
    place = np.tile(np.arange(size), len(number))
    return ClickLists(np.repeat(number, size), place, place + 1, clicked.ravel().astype(bool))


@dataclass(frozen=True)
class Judged:
    """One judgment, as a writer of samples is given it: the grade is text, which may be wrong."""

    query_id: str
    query: str
    document_id: str
    grade: str


Writer = Callable[[Sequence[Judged]], bytes]

"""A file of the reader's format; raises ValueError or BadInput for what the format cannot hold."""


def check_judgment_reader(
    reader: JudgmentReader, write: Writer | None = None, registry: Registry | None = None
) -> list[str]:
    """Check everything that a judgment reader promises, on files that `write` makes.

    Its own example and files are recognised, those of the other readers in the registry (without
    one, of what is installed) are left to them. What is written reads back: every judgment, in
    order, ids and fractions as they stand, compressed or not. A grade that is no number, an id
    that is empty or has blanks around it, and a file that is cut are refused, naming file and
    line, and never read as something else. Without `write`, all that the example can show.

    Raises AssertionError. Returns a sentence for each kind of value that `write` says the format
    cannot hold, and that was skipped.
    """
    require = Require("judgment-reader", reader)
    plain = reader.example() if write is None else write(_PLAIN)
    with tempfile.TemporaryDirectory() as folder:
        check = _ReaderCheck(require, reader, Path(folder) / "judgments")
        check.recognition(registry, plain)
        if write is not None:
            unheld = list(check.files_of(write, plain))
        else:
            unheld = [
                f"{reader.name} was checked on its example alone: with a method write(rows) -> "
                "bytes, as check_judgment_reader takes, hard ids and bad grades are checked too"
            ]
        check.cuts(plain)
    return unheld


Row = tuple[str, str, str, float]


@dataclass(frozen=True)
class _ReaderCheck:
    """A reader at work; each of its files is written to `path`."""

    require: Require
    reader: JudgmentReader
    path: Path

    def recognition(self, registry: Registry | None, plain: bytes) -> None:
        """Check that every example goes to its own reader, this one among them."""
        readers = judgment_readers(installed() if registry is None else registry)
        others = [reader for reader in readers if reader.name != self.reader.name]
        files = [(reader, reader.example()) for reader in (self.reader, *others)]
        for owner, content in (*files, (self.reader, plain)):
            chosen = self._chosen([self.reader, *others], content)
            self.require(
                chosen is owner,
                f"asked with precedence {self.reader.precedence}: a file of '{owner.name}' was "
                f"taken for {chosen.name if chosen else 'none'!r}",
            )
        for content in _NO_TEXT:
            self._chosen([self.reader], content)
        self.accepted("its own example", self.reader.example())

    def _chosen(self, readers: list[JudgmentReader], content: bytes) -> JudgmentReader | None:
        self.path.write_bytes(content)
        try:
            return first_to_recognise(readers, self.path, read_head(self.path))
        except OwpcLtrError as error:
            raise AssertionError(f"{self.require.who} asked for its files: {error}") from error

    def files_of(self, write: Writer, plain: bytes) -> Iterator[str]:
        """Check what is written; a sentence for each kind of value that cannot be."""

        def written(rows: Sequence[Judged]) -> bytes | None:
            try:
                return write(rows)
            except (ValueError, BadInput):
                return None

        self.reads_as("plain judgments", plain, _PLAIN)
        packed = gzip.compress(plain)
        self.reads_as("a file compressed by gzip", packed, _PLAIN)
        self.refuses("a compressed file that is cut", packed[:-9])
        for what, rows in _LISTS.items():
            if content := written(rows):
                self.reads_as(what, content, rows)
            else:
                yield f"{self.reader.name} cannot hold {what}"
        lines, refused = self._judgments(plain), set()
        for what, column, value in _BAD:
            # An id that is a query's text is not read from the file's column of ids.
            by_text = getattr(self.reader, "ids_are_texts", False) and column == "query_id"
            content = None if by_text else written(_changed(**{column: value}))
            if not content:
                yield f"{self.reader.name} cannot hold {what}"
                continue
            refused.add(column)
            if value == "-1" and lines.negative == "zero":
                claim = "negative grades, which it claims to read as 0,"
                self.reads_as(claim, content, _changed(grade="0"))
                notes = group_judgments(self._judgments(content)).notes
                self.require(notes, f"reads {claim} without a note")
            else:
                self.refuses(what, content, f"{lines.place} {lines.numbers[_BAD_AT]}:")
        self.require("grade" in refused, "cannot be checked: its writer cannot write a bad grade")

    def reads_as(self, what: str, content: bytes, rows: Sequence[Judged]) -> None:
        """Check that a file reads as these rows, the queries in the order of their first."""
        by_text = getattr(self.reader, "ids_are_texts", False)
        first = [row.query_id for row in rows]
        expected: list[Row] = [
            (
                row.query if by_text else row.query_id,
                row.query,
                row.document_id,
                float(np.float32(row.grade)),
            )
            for row in sorted(rows, key=lambda row: first.index(row.query_id))
        ]
        actual = self.accepted(what, content)
        self.require(
            actual == expected, f"read {what} as {{}}, where {{}} was written", actual, expected
        )

    def cuts(self, content: bytes) -> None:
        """Check that a cut file is refused, or reads as the judgments before the cut."""
        whole = self.accepted("plain judgments", content)
        for end in np.unique(np.linspace(1, len(content) - 2, 60).astype(int)):
            rows = self._rows(content[:end])
            # The last value of a text may be cut, and nobody can tell.
            self.require(
                isinstance(rows, BadInput)
                or (0 < len(rows) <= len(whole) and rows[:-1] == whole[: len(rows) - 1]),
                f"read the first {end} of {len(content)} bytes as {rows}, the whole as {whole}",
            )

    def refuses(self, what: str, content: bytes, where: str = "") -> None:
        """Check that a file is refused in one line that names it, and a place in it."""
        error = self._rows(content)
        refused = isinstance(error, BadInput)
        self.require(refused, f"must refuse {what}, and read it as {error}")
        text, path = str(error), str(self.path)
        self.require(
            path in text and "\n" not in text and where in text,
            f"must refuse {what} in one line that names file and line ('{where or path}'), "
            f"and said: {text}",
        )

    def accepted(self, what: str, content: bytes) -> list[Row]:
        """The rows of a file, which must be read."""
        rows = self._rows(content)
        self.require(isinstance(rows, list), f"must read {what}, and said: {rows}")
        return cast("list[Row]", rows)

    def _judgments(self, content: bytes) -> JudgmentLines:
        self.path.write_bytes(content)
        return self.reader.read(self.path, _TOPICS)

    def _rows(self, content: bytes) -> list[Row] | BadInput:
        """The rows of a file, or its refusal."""
        try:
            # What a reader warns of is for those whose file it is.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OwpcLtrWarning)
                judgments = group_judgments(self._judgments(content))
        except BadInput as error:
            return error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise AssertionError(
                f"{self.require.who} broke on {shown(content)}: {reason}"
            ) from error
        return [
            (query.query_id, query.params.get("query", ""), document, grade)
            for query in judgments.queries
            for document, grade in zip(query.doc_ids, query.grades.tolist(), strict=True)
        ]


_PLAIN = (
    Judged("q1", "rambo", "7555", "4"),
    Judged("q1", "rambo", "1370", "0"),
    Judged("q2", "rocky", "60375", "3"),
    Judged("q2", "rocky", "7555", "1"),
    Judged("q3", "first blood", "1368", "2"),
)


def _each(
    query_id: str = "{0.query_id}", document_id: str = "{0.document_id}", grade: str = "{0.grade}"
) -> tuple[Judged, ...]:
    return tuple(
        replace(
            row,
            query_id=query_id.format(row),
            document_id=document_id.format(row),
            grade=grade.format(row),
        )
        for row in _PLAIN
    )


_LISTS = {
    "grades that are fractions": _each(grade="{0.grade}.375"),
    "ids with quotes": _each(document_id="'a\"{0.grade}"),
    "ids with blanks": _each(document_id="a {0.grade}  b"),
    "ids with a comma, a semicolon, a tab": _each(document_id="a,{0.grade};b\tc"),
    "ids beyond ASCII": _each("é{0.query_id}", "\u65e5\U0001f3ac{0.grade}"),
    "ids that look like numbers": _each(document_id="00{0.grade}.10"),
    "queries whose judgments lie apart": (*_PLAIN[::2], *_PLAIN[1::2]),
}

_NO_TEXT = (b"\xff\xfe\x00\x80\n\xe9", b"\x00", b"\n \n")

_BAD_AT = 3

_BAD_GRADES = ("nan", "inf", "1e39", "-1", "good", "")

_BAD_IDS = ("", " 7", "7 ")

_BAD = (
    *((f"the grade {shown(bad)}", "grade", bad) for bad in _BAD_GRADES),
    *((f"the document id {shown(bad)}", "document_id", bad) for bad in _BAD_IDS),
    *((f"the query id {shown(bad)}", "query_id", bad) for bad in _BAD_IDS),
)

"""Values that must be refused: what each is, and its column."""


def _changed(**values: str) -> tuple[Judged, ...]:
    """The plain list with other values in the row `_BAD_AT`."""
    return (*_PLAIN[:_BAD_AT], replace(_PLAIN[_BAD_AT], **values), *_PLAIN[_BAD_AT + 1 :])


_TOPICS = {
    row.query_id: row.query for rows in (_PLAIN, *_LISTS.values()) for row in rows
} | dict.fromkeys(_BAD_IDS, _PLAIN[_BAD_AT].query)
