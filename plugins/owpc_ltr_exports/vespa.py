"""Vespa: a model as a rank profile, the text of SCHEMA/NAME.profile in an application package.

The expression is what Vespa makes of an imported XGBoost model: `if (f < t, left, right)`, and
`if (!(f >= t), left, right)` where a missing value (NaN, with which no comparison holds) goes left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr import hookimpl
from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import shown
from owpc_ltr.formats.engine_versions import positions
from owpc_ltr.host.settings import check_settings
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.trees import TreeModel, logistic, written_trees
from owpc_ltr.protocols import ExportedFile, ExportTarget, Model
from owpc_ltr.text import parse_version, version_text

_TOKEN = re.compile(
    r"\s*(-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?(?![A-Za-z0-9_.])"
    r"|[A-Za-z_][A-Za-z0-9_]*|>=|[-+*<!(),])"
)
_NUMBER = re.compile("-?[0-9]")
_DEEPEST = 200


def evaluate(expression: str, values: Mapping[str, Vector], rows: int) -> Vector:
    """One number a row; `values` has a column a name. Raises BadInput for another language."""
    reader = _ExpressionReader(_tokens(expression), values)
    result = reader.sum(0)
    if token := reader.tokens[reader.place]:
        raise BadInput(f"the expression goes on after its end: '{token}'")
    return np.array(np.broadcast_to(result, (rows,)), dtype=np.float64)


def _tokens(expression: str) -> list[str]:
    """The numbers, names and marks, and an empty text as the end."""
    tokens, place, text = [], 0, expression.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadInput(f"the expression has '{shown(text[place : place + 20])}', not a term")
        tokens.append(match[1])
        place = match.end()
    return [*tokens, ""]


@dataclass
class _ExpressionReader:
    """Reads from left to right; each part gives its value on every row at once."""

    tokens: list[str]
    values: Mapping[str, Vector]
    place: int = 0

    def sum(self, depth: int) -> Vector:
        if depth > _DEEPEST:
            raise BadInput(f"the expression is nested deeper than {_DEEPEST} levels")
        total = self.product(depth)
        while self.taken("+"):
            total = total + self.product(depth)
        return total

    def product(self, depth: int) -> Vector:
        result = self.value(depth)
        while self.taken("*"):
            result = result * self.value(depth)
        return result

    def value(self, depth: int) -> Vector:
        if self.taken("if"):
            self.expect("(")
            holds = self.condition()
            self.expect(",")
            yes = self.sum(depth + 1)
            self.expect(",")
            no = self.sum(depth + 1)
            self.expect(")")
            return np.where(holds, yes, no)
        if self.taken("sigmoid"):
            self.expect("(")
            inner = self.sum(depth + 1)
            self.expect(")")
            return logistic(inner)
        if _NUMBER.match(self.tokens[self.place]):
            return np.array(self.number())
        return self.column()

    def condition(self) -> NDArray[np.bool_]:
        """A comparison with NaN does not hold, as in C."""
        if self.taken("!"):
            self.expect("(")
            values = self.column()
            self.expect(">=")
            holds = ~np.asarray(values >= self.number())
            self.expect(")")
            return holds
        if self.taken("isNan"):
            self.expect("(")
            holds = np.isnan(self.column())
            self.expect(")")
            return holds
        values = self.column()
        self.expect("<")
        return np.asarray(values < self.number())

    def column(self) -> Vector:
        name = self.next()
        if name not in self.values:
            raise BadInput(f"the expression has '{shown(name)}' where a function of its own goes")
        return self.values[name]

    def number(self) -> float:
        text = self.next()
        if not _NUMBER.match(text):
            raise BadInput(f"the expression has '{shown(text)}' where a number goes")
        return float(text)

    def next(self) -> str:
        token = self.tokens[self.place]
        if not token:
            raise BadInput("the expression ends too early")
        self.place += 1
        return token

    def taken(self, token: str) -> bool:
        """Whether the token is next; then it is read."""
        is_next = self.tokens[self.place] == token
        self.place += is_next
        return is_next

    def expect(self, mark: str) -> None:
        if not self.taken(mark):
            text = self.tokens[self.place] or "the end"
            raise BadInput(f"the expression has '{shown(text)}' where {mark} goes")


def expression_of(model: Model, functions: Sequence[str]) -> str:
    """The expression that scores as the model does, one function a feature of the model.

    Raises Refused for what is neither a linear model nor trees.
    """
    if isinstance(model, LinearModel):
        return _sum(_linear_terms(model, functions))
    if not isinstance(model, TreeModel):
        raise Refused(
            f"a model of kind '{model.kind}' has no form in Vespa here: train a linear model, or "
            "trees"
        )
    whole = _sum(_trees(model.with_base_as_tree(), functions))
    return whole if model.link == "identity" else f"sigmoid(\n{whole}\n)"


def single_thresholds(thresholds: NDArray[np.float32]) -> Vector:
    """Float64 numbers t' such that, for every float64 v, float32(v) < t exactly where v < t'.

    Rounded to float32, t' is t again. So it is one whether an engine compares in float64 or in
    float32, as Vespa does with forests: in both, values are compared as the model compares them.
    """
    with np.errstate(over="ignore", under="ignore"):
        below = np.nextafter(thresholds, np.float32(-np.inf)).astype(np.float64)
        # Halfway to the float32 below; what would be next to the lowest counts as 2^128.
        below = np.maximum(below, -(2.0**128))
        middle = (below + thresholds.astype(np.float64)) / 2
        ties_go_below = middle.astype(np.float32) < thresholds
    return np.where(ties_go_below, np.nextafter(middle, np.inf), middle)


def _linear_terms(model: LinearModel, functions: Sequence[str]) -> list[str]:
    """Normalisers are multiplied in; a missing feature counts 0 before them, as in the model."""
    weights, intercept = model.folded()
    terms = [
        f"{_number(weight)} * if (isNan({function}), 0.0, {function})"
        for weight, function in zip(weights.tolist(), functions, strict=True)
    ]
    return [*terms, _number(intercept)] if intercept else terms


def _trees(model: TreeModel, functions: Sequence[str]) -> list[str]:
    forest, outputs = model.forest, model.forest.value.tolist()
    thresholds = single_thresholds(forest.threshold).tolist()

    def split(node: int, yes: str, no: str) -> str:
        function, threshold = functions[forest.feature[node]], _number(thresholds[node])
        # No comparison with NaN holds.
        low = f"{function} < {threshold}"
        condition = f"!({function} >= {threshold})" if forest.default_left[node] else low
        return f"if ({condition}, {yes}, {no})"

    return written_trees(forest, lambda node: _number(outputs[node]), split)


def _sum(terms: Sequence[str]) -> str:
    return " +\n".join(terms)


def _number(value: float) -> str:
    """The shortest decimal that reads back as the same float64."""
    return repr(float(value))


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_FUNCTION = re.compile(
    r'  function (feature_[A-Za-z0-9_]+)\(\) \{\n    expression: fill_in\("([^"\n]+)"\)\n  \}\n'
)
_TAKEN = re.compile(
    "default|unranked|"  # profiles that every schema has; the rest are words of the language
    "create-if-nonexistent|cutoff-factor|cutoff-strategy|dense-posting-list-threshold|"
    "distance-metric|document-summary|enable-bit-vectors|enable-bm25|enable-only-bit-vector|"
    "evaluation-point|exact-terminator|execution-mode|fast-access|fast-rank|fast-search|"
    "first-phase|from-disk|global-phase|gpu-device|gram-size|ignore-default-rank-features|"
    "interop-threads|intraop-threads|keep-rank-count|lower-bound|match-features|match-phase|"
    "matched-elements-only|max-filter-coverage|max-hits|max-length|max-links-per-node|"
    "max-occurrences|min-groups|min-hits-per-thread|multi-threaded-indexing|"
    "neighbors-to-explore-at-insert|num-search-partitions|num-threads-per-search|"
    "omit-summary-features|on-demand|on-first-phase|on-match|on-second-phase|on-summary|onnx-model|"
    "post-filter-threshold|pre-post-filter-tipping-point|query-command|rank-features|rank-profile|"
    "rank-properties|rank-score-drop-limit|rank-type|raw-as-base64-in-summary|remove-if-zero|"
    "rerank-count|second-phase|struct-field|summary-features|summary-to|"
    "target-hits-max-adjustment-factor|termwise-limit|upper-bound"
)
"""Names that a profile cannot have."""
_NOTE = """\
  # Made by owpc-ltr. Each function is a feature of the model, as it was logged: write its
  # expression in place of fill_in, which Vespa refuses to deploy. A feature without a value on a
  # document must be NaN there (0.0 / 0.0), not 0.
"""


def check_profile_name(name: str) -> str:
    """The name, if a rank profile can have it. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:140]!r} cannot name a model in Vespa: use up to 128 letters, digits, '_' and "
            "'-', a letter or '_' first"
        )
    if _TAKEN.fullmatch(name):
        raise UsageError(f"'{name}' is a word of Vespa's own: give the model another name")
    return name


def function_names(feature_names: Sequence[str]) -> dict[str, str]:
    """The feature that each function is: `feature_` and the name, all else than letters as `_`.

    Raises Refused for names that a text in quotes cannot hold, or that become one function's.
    """
    functions: dict[str, str] = {}
    for name in feature_names:
        if not name.isprintable() or not name or re.search(r'["\\{}#]', name):
            raise Refused(
                f"the feature '{shown(name)}' cannot be named in a rank profile: leave out quotes, "
                "backslashes, braces, '#' and what is not printable"
            )
        function = "feature_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
        if function in functions:
            raise Refused(
                f"the features '{functions[function]}' and '{name}' would both be the function "
                f"{function}: rename one"
            )
        functions[function] = name
    return functions


def profile_text(name: str, functions: Mapping[str, str], phase: str, expression: str) -> str:
    """The rank profile: its first line is no comment, for which Vespa has no place there."""
    bodies = "".join(
        f'  function {function}() {{\n    expression: fill_in("{feature}")\n  }}\n'
        for function, feature in functions.items()
    )
    indented = "".join(f"      {line}\n" for line in expression.split("\n"))
    scored = f"  {phase} {{\n    expression {{\n{indented}    }}\n  }}\n"
    return f"rank-profile {name} inherits default {{\n{_NOTE}{bodies}{scored}}}\n"


def read_profile(text: str) -> tuple[dict[str, str], str]:
    """The feature of each function, and the expression, of a profile as it is written here.

    Raises BadInput for any other text.
    """
    head = re.match(rf"rank-profile ({_NAME.pattern}) inherits default \{{\n(?:  #[^\n]*\n)*", text)
    if head is None:
        raise BadInput("the text does not begin with a rank profile that inherits default")
    functions: dict[str, str] = {}
    place = head.end()
    while match := _FUNCTION.match(text, place):
        if match[1] in functions:
            raise BadInput(f"the function {match[1]} is defined twice")
        functions[match[1]] = match[2]
        place = match.end()
    phase = re.compile(
        r"  (?:first|second)-phase \{\n    expression \{\n((?:      [^{}\n]*\n)+)    \}\n  \}\n\}\n"
    ).fullmatch(text, place)
    if phase is None:
        raise BadInput(f"the text is no rank profile of ours from character {place} on")
    return functions, phase[1]


Phase = Literal["first-phase", "second-phase"]


@dataclass(frozen=True)
class Vespa:
    """Vespa: a rank profile with one function a feature, whose bodies its reader fills in.

    `phase` is the ranking phase that the model scores in: the first sees every match, the second
    the best of them by nativeRank.
    """

    name: ClassVar[str] = "vespa"
    versions: ClassVar[tuple[str, ...]] = ("8",)

    phase: Phase = "first-phase"

    def __post_init__(self) -> None:
        check_settings(self)

    def export(
        self,
        model: Model,
        name: str,
        version: str,
        featureset: FeatureSet | None = None,  # noqa: ARG002 - Vespa has other queries
    ) -> ExportedFile:
        """Linear models and trees; missing features go where the model sends them."""
        numbers = parse_version(version)
        if numbers < (8,):
            raise UsageError(f"vespa {version_text(numbers)} is not known here: choose 8 or later")
        check_profile_name(name)
        functions = function_names(model.feature_names)
        text = profile_text(name, functions, self.phase, expression_of(model, list(functions)))
        request = f"copying it to schemas/SCHEMA/{name}.profile, filled in, and `vespa deploy`"
        return ExportedFile(text, "rank-profile", request, version_text(numbers))

    def scores(
        self, exported: ExportedFile, feature_names: Sequence[str], features: Matrix
    ) -> Vector:
        """In float64, by the expression of the file, each function the column that it names."""
        functions, expression = read_profile(exported.text)
        if features.ndim != 2 or features.shape[1] != len(feature_names):
            raise BadInput(
                f"{len(feature_names)} features are named, the data has {features.shape[-1]}"
            )
        columns = positions(list(functions.values()), feature_names)
        values = {
            function: features[:, column].astype(float)
            for function, column in zip(functions, columns, strict=True)
        }
        return evaluate(expression, values, len(features))


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for vespa`."""
    return [Vespa]
