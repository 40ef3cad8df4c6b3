"""The page: sections put into one HTML file that needs no network, whatever their texts hold."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from owpc_ltr.evaluation.verdict import Outcome
from owpc_ltr.shown import printable
from owpc_ltr.version import VERSION
from owpc_ltr_report.blocks import Chart, QueryList, Section, charts_of
from owpc_ltr_report.figures import amount, plain, signed
from owpc_ltr_report.sections.queries import SHOWN
from owpc_ltr_report.verdict import NEUTRAL, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

_SIGNS = {
    Outcome.BETTER: "▲",
    Outcome.WORSE: "▼",
    Outcome.NO_DIFFERENCE: "●",
    Outcome.CANNOT_TELL: "◆",
    NEUTRAL: "●",
}
_DIGITS = 5


@dataclass(frozen=True)
class Page:
    """What stands on the page; `left_out` names what is not there, and how to get it."""

    title: str
    verdict: Verdict | None
    sections: tuple[Section, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts by name, in their order."""
        return {chart.name: chart for chart in charts_of(self.sections)}

    def html(self) -> str:
        """The whole page."""
        from markupsafe import Markup

        from owpc_ltr_report.library import library

        # What is inside <script> and <style> ends at its end tag alone, and is not escaped.
        script, chart_library = _part("page.js"), library()
        mood = self.verdict.mood if self.verdict else NEUTRAL
        return _environment().get_template("page.html.jinja").render(
            title=self.title, verdict=self.verdict, sections=self.sections,
            left_out=self.left_out, version=VERSION, shown=SHOWN,
            sign=_SIGNS[mood], policy=_policy(chart_library, script),
            style=Markup(_part("page.css")), payload=Markup(script_json(_payload(self.sections))),  # noqa: S704
            library=Markup(chart_library), script=Markup(script),  # noqa: S704
        )  # fmt: skip


def script_json(content: Any) -> str:
    r"""JSON that can stand inside <script>: no text in it can end it, or begin a comment.

    >>> script_json({"text": "</script><!-- & \u2028"})
    '{"text":"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def shown_json(value: Any) -> Any:
    """A value as the page's JSON holds it: texts as they may be shown, numbers that there are."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {str(name): shown_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown_json(each) for each in value]
    if isinstance(value, float):
        return _rounded(value) if math.isfinite(value) else None
    return value


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _payload(sections: Sequence[Section]) -> Any:
    charts = {chart.name: chart.spec for chart in charts_of(sections)}
    lists = {
        block.name: _query_list(block)
        for section in sections
        for block in section.blocks
        if isinstance(block, QueryList)
    }
    return shown_json({"charts": charts, "queries": lists})


def _query_list(block: QueryList) -> dict[str, Any]:
    return {
        "higher": block.higher_is_better,
        "shown": SHOWN,
        "spec": block.spec,
        "rows": [
            (row.query_id, "" if row.text == row.query_id else row.text, row.before, row.after)
            for row in block.rows
        ],
    }


def _policy(*scripts: str) -> str:
    """What the browser may do for the page: run these scripts, and ask no network for anything."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _part(name: str) -> str:
    return (files("owpc_ltr_report") / "page" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import BaseLoader, Environment, StrictUndefined

    class _Parts(BaseLoader):
        def get_source(self, environment: Environment, template: str) -> tuple[str, None, None]:
            del environment
            return _part(template), None, None

    made = Environment(
        loader=_Parts(), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    made.filters |= {"cell": _cell, "number": amount, "difference": signed}
    return made


def _cell(value: Any) -> Any:
    """A cell of a table: of several lines, the first one is what it is about."""
    from markupsafe import Markup, escape

    if not isinstance(value, tuple):
        return plain(value)
    first, *rest = (escape(printable(line)) for line in value)
    under = (Markup('<br><span class="under">{}</span>').format(line) for line in rest)
    return first + Markup("").join(under)


def _shown(value: Any) -> Any:
    """Foreign text without what steers a reader's eye; what is HTML already stays."""
    return printable(value) if type(value) is str else value
