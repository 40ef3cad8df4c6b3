"""Constant columns: features without a value, or with one and the same in every document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from owpc_ltr.data.columns import ColumnFacts, constant_values, empty_columns, listed
from owpc_ltr.inspection.finding import NOTE, WARNING, Finding, Severity

_CHECK = "check the templates and fields"
_GUESS = f"{_CHECK}: one that is misspelt matches nothing"


def constant_columns(facts: ColumnFacts, names: Sequence[str]) -> Iterator[Finding]:
    """A finding on the columns without any value, and one on those whose value never changes."""
    empty, constant = empty_columns(facts, names), constant_values(facts, names)
    if empty:
        yield Finding(
            "constant-column",
            WARNING,
            listed(empty),
            f"no document has a value for {listed(empty)}",
            _GUESS,
            tuple(empty),
        )
    # A numbered feature of a published form has no field, and 0 is how it is left out.
    unused = [name for name, value in constant.items() if value == 0 and name.isdecimal()]
    if unused:
        yield _same(unused, constant, NOTE, "the features of these numbers are not used")
    telling = [name for name in constant if name not in unused]
    if telling:
        yield _same(telling, constant, WARNING, _GUESS)


def _same(
    names: list[str], constant: Mapping[str, float], severity: Severity, advice: str
) -> Finding:
    told = listed([f"{name} ({constant[name]:g})" for name in names])
    return Finding(
        "constant-column",
        severity,
        listed(names),
        f"every document has the same value for {told}",
        advice,
        tuple(names),
    )


def warnings_of_log(facts: ColumnFacts, names: Sequence[str]) -> list[str]:
    """The same as lines, for those who have just written the templates."""
    return [f"{one.message}: {_CHECK}" for one in constant_columns(facts, names)]


def silent_in_training(silent: Sequence[str]) -> list[str]:
    """A line on the features that nothing could be learned from, if there are any."""
    if not silent:
        return []
    return [
        f"no value, or one and the same, in all documents: {listed(silent)}: nothing was learned "
        f"from them; {_CHECK}"
    ]
