"""The text of a rank profile: one function a feature, and the expression of a ranking phase."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.files.strict_json import shown

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
    while found := _FUNCTION.match(text, place):
        if found[1] in functions:
            raise BadInput(f"the function {found[1]} is defined twice")
        functions[found[1]] = found[2]
        place = found.end()
    phase = re.compile(
        r"  (?:first|second)-phase \{\n    expression \{\n((?:      [^{}\n]*\n)+)    \}\n  \}\n\}\n"
    ).fullmatch(text, place)
    if phase is None:
        raise BadInput(f"the text is no rank profile of ours from character {place} on")
    return functions, phase[1]
