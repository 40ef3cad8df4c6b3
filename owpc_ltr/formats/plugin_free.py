"""Models that an engine without a plugin runs by scripts: trees, and curves of straight pieces.

A forest's tables are stored as JSON, and sent in a query. An engine compiles the source of each
script once a node, and refuses to compile many in a short time: sources are constant, only their
parameters vary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import MUSTACHE, FeatureSet, refuse_by_client
from owpc_ltr.features.mustache import lowest, scoring, scripted, summed
from owpc_ltr.features.query_analysis import always_matches
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.analysis import LOWEST_RESCORED, ScoreInterval
from owpc_ltr.models.linear import AdditiveModel, Curve
from owpc_ltr.models.trees import (
    LINKS,
    MOST_CODES,
    TableBlock,
    TreeModel,
    blocks_of,
    logistic,
    shortest_floats,
    tables_of,
)
from owpc_ltr.protocols import Model

Query = dict[str, Any]
BIN = """\
List t = params.thresholds; int low = 0; int high = t.size();
while (low < high) {
  int middle = (low + high) / 2;
  if (_score >= (double)t.get(middle)) { low = middle + 1; } else { high = middle; }
}
return (low + 1) * params.step;"""
"""The number of a feature's bin (from 1, by its score) times the step of the code."""
TABLES = """\
int at(String s, int i, int width) {
  int x = 0;
  for (int j = i * width; j < (i + 1) * width; j++) { x = x * 64 + s.charAt(j) - 48; }
  return x;
}
int code = (int)_score; String n = params.sizes; int[] bin = new int[n.length() / 4];
for (int i = 0; i < bin.length; i++) {
  int size = at(n, i, 4); bin[i] = code % size; code = code / size;
}
String t = params.tables; String p = params.places; String v = params.values;
long sum = 0; int i = 0; int end = t.length() / 4;
while (i < end) {
  int columns = at(t, i, 4); int x = at(t, i + 1, 4); i += 2;
  for (int j = 0; j < columns; j++) { x += at(p, at(t, i + 1, 4) + bin[at(t, i, 4)], 4); i += 2; }
  sum += at(v, x, 5);
}
return sum * params.unit + params.floor;"""
"""The bins of a block's features out of their code; the sum of what its tables have for them.

`tables` has for each its number of columns and where its values start, then for each column which
of the block's it is and where in `places` the steps of its bins start.
"""
LOGISTIC = "return params.floor + 1.0 / (1.0 + Math.exp(params.middle - _score));"
"""The logistic function of a sum, which is 1/2 at `middle`."""
_FIRST = 48
PLACE, VALUE = 4, 5
"""Characters of a place in a text or table, and of a value."""
LARGEST_VALUE = (1 << 6 * VALUE) - 1


def digits_of(numbers: Sequence[int] | NDArray[np.int64], width: int) -> str:
    """Each number in `width` characters, the highest first.

    >>> digits_of([0, 64, 4095], 2)
    '0010oo'
    """
    whole = np.asarray(numbers, dtype=np.int64).reshape(-1, 1)
    shifts = 6 * np.arange(width - 1, -1, -1)
    return ((whole >> shifts & 63) + _FIRST).astype(np.uint8).tobytes().decode("ascii")


def numbers_of(text: object, width: int, where: str) -> NDArray[np.int64]:
    """The numbers that `digits_of` wrote. Raises BadInput for any other text."""
    if not isinstance(text, str) or len(text) % width or not text.isascii():
        raise BadInput(f"{where} is not text of numbers of {width} characters each")
    digits = np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64) - _FIRST
    if ((digits < 0) | (digits > 63)).any():
        raise BadInput(f"{where} has characters that are not digits")
    shifts = 6 * np.arange(width - 1, -1, -1)
    return np.asarray((digits.reshape(-1, width) << shifts).sum(axis=1), dtype=np.int64)


TREES = "model/plain-trees"
MOST_BYTES = 1 << 20
"""How long the tables may be that every search carries."""
_FORMAT = 1


@dataclass(frozen=True)
class CodedBlock:
    """A block: its features, their thresholds, and its tables as texts that a script reads."""

    features: tuple[str, ...]
    thresholds: tuple[tuple[float, ...], ...]
    tables: str
    places: str
    values: str

    @property
    def sizes(self) -> list[int]:
        """How many bins each feature has."""
        return [len(bounds) + 2 for bounds in self.thresholds]

    @property
    def steps(self) -> list[int]:
        """The factor of each feature's bin in the code."""
        return [math.prod(self.sizes[:place]) for place in range(len(self.sizes))]

    def query(self, queries: Mapping[str, Query], unit: float, floor: float) -> Query:
        """The sum of its tables for every document."""
        codes = [
            scripted(scoring(queries[name]), BIN, feature=name, thresholds=list(bounds), step=step)
            for name, bounds, step in zip(self.features, self.thresholds, self.steps, strict=True)
        ]
        return scripted(
            summed(codes),
            TABLES,
            sizes=digits_of(self.sizes, PLACE),
            tables=self.tables,
            places=self.places,
            values=self.values,
            unit=unit,
            floor=floor,
        )

    def sums(self, columns: Mapping[str, Vector]) -> Vector:
        """The sum of its tables for each document, in units; a missing value is NaN."""
        places = numbers_of(self.places, PLACE, "a block's text")
        values = numbers_of(self.values, VALUE, "a block's text")
        code = np.zeros(len(next(iter(columns.values()))), dtype=np.float32)
        for name, bounds, step in zip(self.features, self.thresholds, self.steps, strict=True):
            number = np.searchsorted(np.array(bounds), columns[name], side="right") + 1
            code += (np.where(np.isnan(columns[name]), 0, number) * step).astype(np.float32)
        whole = code.astype(np.int64)
        bins = [whole // step % size for step, size in zip(self.steps, self.sizes, strict=True)]
        total = np.zeros(len(code))
        for start, parts in self.read_tables():
            x = np.full(len(code), start)
            for column, first in parts:
                x += places[first + bins[column]]
            total += values[x]
        return total

    def read_tables(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Where each table's values start; of each of its columns which it is, and its places."""
        numbers, at = numbers_of(self.tables, PLACE, "a block's text"), 0
        while at < len(numbers):
            end = at + 2 + 2 * int(numbers[at])
            yield int(numbers[at + 1]), numbers[at + 2 : end].reshape(-1, 2)
            at = end


class _Form:
    def as_dict(self) -> dict[str, Any]:
        """The form as the JSON that a store keeps."""
        return {"format": _FORMAT, **json.loads(json.dumps(asdict(self)))}  # type: ignore[call-overload]


@dataclass(frozen=True)
class PluginFreeTrees(_Form):
    """Blocks whose sums, in `unit`s, are the trees' score but for a constant.

    The trees' own sum, before the link, is that of the blocks less `middle`.
    """

    blocks: tuple[CodedBlock, ...]
    unit: float
    middle: float
    link: str = "identity"

    @property
    def features(self) -> tuple[str, ...]:
        """The features that it asks for."""
        return tuple(sorted({name for block in self.blocks for name in block.features}))

    @property
    def shift(self) -> float:
        """By how much the engine's scores exceed the model's."""
        return LOWEST_RESCORED + (self.middle if self.link == "identity" else 0.0)

    @property
    def interval(self) -> ScoreInterval:
        """Between which numbers the engine's scores lie, for every document."""
        _, tables = self.size
        top = self.unit * LARGEST_VALUE * tables if self.link == "identity" else 1.0
        return ScoreInterval(LOWEST_RESCORED, LOWEST_RESCORED + top, proven=True)

    def query(self, queries: Mapping[str, Query]) -> Query:
        """The query whose score is the model's plus the shift, for every document."""
        floor = LOWEST_RESCORED if self.link == "identity" else 0.0
        parts = [
            block.query(queries, self.unit, 0.0 if place else floor)
            for place, block in enumerate(self.blocks)
        ] or [lowest(floor)]
        total = parts[0] if len(parts) == 1 else summed(parts)
        if self.link == "identity":
            return total
        return scripted(total, LOGISTIC, floor=LOWEST_RESCORED, middle=self.middle)

    @property
    def size(self) -> tuple[int, int]:
        """The feature queries of all blocks, and their tables."""
        queries = sum(len(block.features) for block in self.blocks)
        return queries, sum(len(list(block.read_tables())) for block in self.blocks)

    def in_words(self) -> str:
        """How the engine comes by its scores."""
        queries, tables = self.size
        return f"{tables} tables of up to three features, {queries} feature queries"

    def score(self, feature_names: Sequence[str], features: Matrix) -> Vector:
        """What the engine gives, rounded to float32 where it rounds."""
        rows = features.astype(np.float32).astype(np.float64)
        columns = {name: rows[:, place] for place, name in enumerate(feature_names)}
        total = np.zeros(len(rows))
        for block in self.blocks:
            total += (block.sums(columns) * self.unit).astype(np.float32)
        single = total.astype(np.float32).astype(np.float64)
        scores = single if self.link == "identity" else logistic(single - self.middle)
        return np.asarray((scores + LOWEST_RESCORED).astype(np.float32), dtype=np.float64)


def plugin_free_trees(model: Model, names: Sequence[str]) -> PluginFreeTrees:
    """The form of a forest. Raises Refused, saying what would fit."""
    if not isinstance(model, TreeModel):
        raise Refused(f"an engine without the LTR plugin runs no model of kind '{model.kind}'")
    tables, constant = tables_of(model.forest, names)
    lows = [float(table.values.min()) for table in tables]
    widest = max((float(np.ptp(table.values)) for table in tables), default=0.0)
    unit = widest / LARGEST_VALUE or 1.0
    blocks = tuple(_coded(block, names, unit) for block in blocks_of(tables))
    middle = -math.fsum([*lows, constant, model.base])
    return PluginFreeTrees(blocks, unit, middle, model.link)


def trees_for_engine(model: Model, featureset: FeatureSet) -> PluginFreeTrees:
    """The form of a forest that an engine has room for. Raises Refused, saying what would fit."""
    form = plugin_free_trees(model, featureset.feature_names)
    check_queries(form.features, featureset)
    size = len(json.dumps(form.as_dict()))
    if size > MOST_BYTES:
        raise Refused(
            f"as tables the trees take {size:,} bytes in every search, and {MOST_BYTES:,} are "
            "allowed: train fewer or shallower trees, or with optimizer.bins=64"
        )
    return form


def check_queries(names: Iterable[str], featureset: FeatureSet) -> None:
    """Refuse features that are no queries: scripts see nothing but scores."""
    refuse_by_client(featureset)
    languages = {feature.name: feature.template_language for feature in featureset.features}
    for name in names:
        if languages[name] != MUSTACHE:
            raise Refused(
                f"the model reads '{name}', a {languages[name]}, and without a plugin scripts see "
                "scores of queries alone: train without it"
            )


def _read_trees(content: dict[str, Any]) -> PluginFreeTrees:
    blocks = tuple(
        CodedBlock(
            tuple(map(str, block["features"])),
            tuple(tuple(map(float, bounds)) for bounds in block["thresholds"]),
            **{key: str(block[key]) for key in ("tables", "places", "values")},
        )
        for block in content.pop("blocks")
    )
    form = PluginFreeTrees(blocks, **content)
    if form.link not in LINKS:
        raise ValueError(f"no link is called '{form.link}'")
    if not (math.isfinite(form.middle) and form.unit > 0 and math.isfinite(form.unit)):
        raise ValueError("its numbers are not finite")
    if any(math.prod(block.sizes) > MOST_CODES for block in blocks):
        raise ValueError("a block has more codes than a float32 holds")
    return form


def _coded(block: TableBlock, names: Sequence[str], unit: float) -> CodedBlock:
    tables: list[int] = []
    places: list[int] = []
    values: list[np.ndarray[Any, Any]] = []
    start = 0
    for table in block.tables:
        tables += [len(table.columns), start]
        steps = [math.prod(table.values.shape[place + 1 :]) for place in range(table.values.ndim)]
        for column, bins, step in zip(table.columns, block.bins_in(table), steps, strict=True):
            tables += [block.columns.index(column), len(places)]
            places += (bins * step).tolist()
        # The values above the lowest in units, row by row.
        above = table.values - table.values.min()
        values.append(np.rint(above / unit).astype(np.int64).ravel())
        start += table.values.size
    return CodedBlock(
        tuple(names[column] for column in block.columns),
        tuple(map(not_above, block.thresholds)),
        digits_of(tables, PLACE),
        digits_of(places, PLACE),
        digits_of(np.concatenate(values), VALUE),
    )


def not_above(thresholds: NDArray[np.float32]) -> tuple[float, ...]:
    """Each float32 by the fewest digits that read back as it, unless these say more than it is.

    A float32 is then below the number where it is below the threshold.
    """
    both = zip(thresholds.astype(np.float64).tolist(), shortest_floats(thresholds), strict=True)
    return tuple(short if short <= value else value for value, short in both)


CURVES = "model/plain-curves"
CURVE = """\
List t = params.knots; List v = params.values; double x = _score; int high = t.size() - 1;
if (x <= (double)t.get(0)) { return (double)v.get(0); }
if (x >= (double)t.get(high)) { return (double)v.get(high); }
int low = 0;
while (high - low > 1) {
  int middle = (low + high) / 2;
  if (x >= (double)t.get(middle)) { low = middle; } else { high = middle; }
}
double a = (double)t.get(low); double b = (double)t.get(high);
double from = (double)v.get(low); double to = (double)v.get(high);
return Math.max(0.0, from + (to - from) * ((x - a) / (b - a)));"""
"""What a curve of straight pieces gives for a feature's score; level beyond its knots."""
PRESENT = "return _score == 0 ? params.missing : Math.max(0.0, _score - params.span);"
"""What is above `span`; of a document that has nothing, what is for those."""


@dataclass(frozen=True)
class LiftedCurve:
    """A feature's curve, lifted so that nothing is negative; `missing` None: it never is."""

    feature: str
    knots: tuple[float, ...]
    values: tuple[float, ...]
    missing: float | None

    def query(self, query: Query) -> Query:
        """What it gives to every document."""
        # A document without the feature is one whose sum is 0: all others are lifted above that.
        lifted = [value + self._span for value in self.values]
        curve = scripted(scoring(query), CURVE, knots=list(self.knots), values=lifted)
        if not self.missing:
            return curve
        return scripted(summed([curve]), PRESENT, span=self._span, missing=self.missing)

    def at(self, values: Vector) -> Vector:
        """What it gives, rounded to float32 where the engine rounds."""
        span = self._span
        lifted = np.interp(values, self.knots, np.array(self.values) + span).astype(np.float32)
        present = np.maximum(0.0, lifted.astype(np.float64) - span)
        return np.where(np.isnan(values), self.missing or 0.0, present).astype(np.float32)

    @property
    def _span(self) -> float:
        return max(*self.values, self.missing) if self.missing else 0.0


@dataclass(frozen=True)
class PluginFreeCurves(_Form):
    """Lifted curves, whose sum exceeds the model's score by `shift`."""

    curves: tuple[LiftedCurve, ...]
    shift: float

    @property
    def features(self) -> tuple[str, ...]:
        """The features that it asks for."""
        return tuple(curve.feature for curve in self.curves)

    @property
    def interval(self) -> ScoreInterval:
        """Between which numbers the engine's scores lie, for every document."""
        high = sum(max(*curve.values, curve.missing or 0.0) for curve in self.curves)
        return ScoreInterval(LOWEST_RESCORED, LOWEST_RESCORED + 1.001 * high, proven=True)

    def query(self, queries: Mapping[str, Query]) -> Query:
        """The query whose score is the model's plus the shift, for every document."""
        parts = [curve.query(queries[curve.feature]) for curve in self.curves]
        return summed([*parts, lowest(LOWEST_RESCORED)])

    @property
    def size(self) -> tuple[int, int]:
        """The feature queries, and a table for each."""
        return len(self.curves), len(self.curves)

    def in_words(self) -> str:
        """How the engine comes by its scores."""
        return f"{len(self.curves)} curves of one feature each"

    def score(self, feature_names: Sequence[str], features: Matrix) -> Vector:
        """What the engine gives, rounded to float32 where it rounds."""
        rows = features.astype(np.float32).astype(np.float64)
        total = np.full(len(rows), LOWEST_RESCORED)
        for curve in self.curves:
            total += curve.at(rows[:, list(feature_names).index(curve.feature)])
        return np.asarray(total.astype(np.float32), dtype=np.float64)


def plugin_free_curves(model: AdditiveModel, always: Collection[str] = ()) -> PluginFreeCurves:
    """The form of an additive model; the features of `always` are never missing."""
    curves, lows = [], []
    for name, curve in model.curves.items():
        values = curve.values if name in always else np.append(curve.values, curve.missing)
        lows.append(float(values.min()))
        curves.append(_lifted(name, curve, lows[-1], never_missing=name in always))
    return PluginFreeCurves(tuple(curves), LOWEST_RESCORED - math.fsum(lows))


def _read_curves(content: dict[str, Any]) -> PluginFreeCurves:
    curves = tuple(map(_read_curve, content["curves"]))
    shift = float(content["shift"])
    if not math.isfinite(shift):
        raise ValueError("its shift is not finite")
    return PluginFreeCurves(curves, shift)


def _lifted(name: str, curve: Curve, low: float, *, never_missing: bool) -> LiftedCurve:
    values = tuple((curve.values - low).tolist())
    missing = None if never_missing else curve.missing - low
    return LiftedCurve(name, tuple(curve.knots.tolist()), values, missing)


def _read_curve(content: dict[str, Any]) -> LiftedCurve:
    missing = content["missing"]
    curve = Curve(content["knots"], content["values"], 0.0 if missing is None else float(missing))
    if min(curve.ends) < 0:
        raise ValueError("a lifted curve is negative somewhere")
    return _lifted(str(content["feature"]), curve, 0.0, never_missing=missing is None)


def store_plugin_free(model: Model, featureset: FeatureSet, name: str) -> StoredModel:
    """The model as an engine without a plugin runs it. Raises Refused, saying what would fit."""
    if not isinstance(model, AdditiveModel):
        return StoredModel(name, TREES, trees_for_engine(model, featureset).as_dict(), featureset)
    check_queries(model.curves, featureset)
    always = {feature.name for feature in featureset.features if always_matches(feature)}
    return StoredModel(name, CURVES, plugin_free_curves(model, always).as_dict(), featureset)


PluginFreeModel = PluginFreeCurves | PluginFreeTrees
"""A model as one query, whose scores are the model's plus a constant, and never negative."""
_LARGEST_CACHE = 16
_CACHE: dict[int, tuple[StoredModel, PluginFreeModel]] = {}


def plugin_free_model(stored: StoredModel) -> PluginFreeModel | None:
    """The model that the engine runs by scripts; None for one that it does not.

    The last models are cached, since many searches use few of them. Raises BadInput if the stored
    one is damaged.
    """
    if stored.type not in {TREES, CURVES}:
        return None
    # The cache holds the stored model, so that no other object gets its id.
    cached = _CACHE.get(id(stored))
    if cached is None:
        cached = _CACHE[id(stored)] = stored, _read(stored)
        for oldest in list(_CACHE)[:-_LARGEST_CACHE]:
            _CACHE.pop(oldest, None)
    return cached[1]


def _read(stored: StoredModel) -> PluginFreeModel:
    where, definition = f"the stored model '{stored.name}'", stored.definition
    read: Callable[[dict[str, Any]], PluginFreeModel]
    read = _read_trees if stored.type == TREES else _read_curves
    try:
        content = json.loads(definition) if isinstance(definition, str) else dict(definition)
        if content.pop("format") != _FORMAT:
            raise BadInput(f"{where} was written by a later version of owpc-ltr: use that one")
        form = read(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where} is damaged: {type(error).__name__} {error}") from error
    unknown = sorted(set(form.features) - set(stored.featureset.feature_names))
    if unknown:
        raise BadInput(
            f"{where} is damaged: it reads '{unknown[0]}', which is not a feature of its set"
        )
    return form


def score_shift(stored: StoredModel) -> float:
    """By how much an engine's scores of a stored model exceed the model's own."""
    form = plugin_free_model(stored)
    return form.shift if form else 0.0
