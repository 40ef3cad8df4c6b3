"""The page: sections in one HTML file that needs no network, whatever their texts contain."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.significance import Outcome
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.plain_text import printable
from owpc_ltr.version import VERSION
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Chart,
    PageVerdict,
    QueryList,
    Section,
    amount,
    plain,
    signed,
)
from owpc_ltr_report.charts import VEGA_LITE
from owpc_ltr_report.clicks import click_sections, click_verdict
from owpc_ltr_report.comparison import (
    comparison_section,
    proxy_labels_section,
    query_selection,
    verdict_of,
)
from owpc_ltr_report.data import data_section, inspection_section, inspection_verdict
from owpc_ltr_report.engine import (
    drift_section,
    drift_verdict,
    latency_section,
    pool_section,
    pool_verdict,
)
from owpc_ltr_report.features import features_section, scores_section
from owpc_ltr_report.material import Material
from owpc_ltr_report.queries import (
    QUERIES_AT_ONCE,
    examples_section,
    explanation_example,
    explanation_verdict,
    queries_section,
)
from owpc_ltr_report.training import (
    provenance_section,
    selection_section,
    selection_verdict,
    training_section,
    training_verdict,
)

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
_SCRIPT_END = re.compile(r"</(?=script)|<!--", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """A verdict and sections; `left_out` are the other sections, with how to get them."""

    title: str
    verdict: PageVerdict | None
    sections: tuple[Section, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts by name, in their order."""
        return {one.name: one for section in self.sections for one in section.charts}

    def __str__(self) -> str:
        return "" if self.verdict is None else self.verdict.sentence

    def html(self) -> str:
        """The whole page."""
        from markupsafe import Markup

        # The content of <script> and <style> ends at its end tag alone, and is not escaped.
        script, library = _template("page.js"), chart_library()
        style = _template("colours.css") + _template("layout.css")
        mood = self.verdict.mood if self.verdict else NEUTRAL
        return _environment().get_template("page.html.jinja").render(
            title=self.title, verdict=self.verdict, sections=self.sections,
            left_out=self.left_out, version=VERSION, queries_at_once=QUERIES_AT_ONCE,
            sign=_SIGNS[mood], policy=_policy(library, script), style=Markup(style),  # noqa: S704
            payload=Markup(script_json(self._payload())),  # noqa: S704
            library=Markup(library), script=Markup(script),  # noqa: S704
        )  # fmt: skip

    def _payload(self) -> Any:
        """What the page's script draws: specifications of charts, and queries."""
        lists = {
            block.name: {
                "higher": block.higher_is_better,
                "at_once": QUERIES_AT_ONCE,
                "spec": block.spec,
                "rows": [
                    (
                        one.query_id,
                        "" if one.text == one.query_id else one.text,
                        one.before,
                        one.after,
                    )
                    for one in block.rows
                ],
            }
            for section in self.sections
            for block in section.blocks
            if isinstance(block, QueryList)
        }
        charts = {name: chart.spec for name, chart in self.charts.items()}
        return safe_json({"charts": charts, "queries": lists})


def page_of(material: Material, title: str) -> Page:
    """The page of all sections that there is material for."""
    made: list[Section] = []
    left_out: list[tuple[str, str]] = []
    for name, (how, sections) in _sections(material).items():
        found = [one for one in sections if one is not None]
        made += found
        if not found:
            left_out.append((name, how))
    return Page(title, _verdict(material), tuple(made), tuple(left_out))


def _sections(of: Material) -> dict[str, tuple[str, Iterable[Section | None]]]:
    """The sections in their order by name, each with how to get it."""
    comparison = of.comparison
    records = [(one.name, one.model.record) for one in of.rankers if one.model is not None]
    given = "give judged queries: --data"
    trained = "give a model that owpc-ltr trained"
    return {
        "a comparison": (given, _each(comparison_section, comparison)),
        "proxy labels": (
            "owpc-ltr compare --proxy-labels --report", _each(proxy_labels_section, comparison),
        ),
        "queries before and after": (
            "give a baseline: --baseline feature:NAME", _each(queries_section, comparison),
        ),
        "examples of queries": ("owpc-ltr report --data, with a baseline", _examples(of)),
        "features": ("give a model file", _features(of)),
        "scores": ("give a model and a dataset in one file", _scores(of)),
        "training": (trained, _training(of)),
        "a selection over folds": (
            "owpc-ltr select --report", _each(selection_section, of.selection),
        ),
        "latency": (
            "owpc-ltr profile --json, then --feature-cost", _each(latency_section, of.latency),
        ),
        "drift": ("owpc-ltr verify --report", _each(drift_section, of.verification)),
        "data checks": (
            "owpc-ltr report --data, or inspect --report", _each(inspection_section, of.inspection),
        ),
        "a pool to judge": ("owpc-ltr judge pool --report", _each(pool_section, of.pool)),
        "judgments from clicks": (
            "owpc-ltr judge clicks --report",
            [] if of.clicks is None else click_sections(of.clicks, of.effective_clicks),
        ),
        "data": (given, _data(of)),
        "provenance": (trained, [provenance_section(records, of.bounds)]),
    }  # fmt: skip


def _each(section: Callable[[Any], Section | None], found: Any) -> list[Section | None]:
    return [] if found is None else [section(found)]


def _data(of: Material) -> Iterator[Section]:
    if of.data is not None:
        measured_on = None if of.comparison is None else query_selection(of.comparison)
        yield data_section(of.data, measured_on)


def _examples(of: Material) -> list[Section | None]:
    before, after = "the ranking before", "the new ranking"
    if of.comparison is not None and of.comparison.baseline is not None:
        before, after = of.comparison.baseline, of.comparison.rankers[0].name
    examples = *of.examples, *map(explanation_example, of.explanations)
    return [examples_section(examples, before, after)]


def _features(of: Material) -> Iterator[Section]:
    data = of.data if isinstance(of.data, RankingDataset) else None
    costs = {} if of.latency is None else {name: cost for name, cost, *_ in of.latency.features}
    for number, each in enumerate(of.rankers):
        model = each.model.base if isinstance(each.model, ReorderingModel) else each.model
        if model is not None:
            yield features_section(each.name, model, data, costs, number)


def _scores(of: Material) -> Iterator[Section | None]:
    scored = [(one.name, one.scores) for one in of.rankers if one.scores is not None]
    if isinstance(of.data, RankingDataset) and scored:
        yield scores_section(*scored[0], of.data)


def _training(of: Material) -> Iterator[Section | None]:
    for number, each in enumerate(of.rankers):
        if each.model is not None:
            yield training_section(each.name, each.model.record, each.rank_weights, number)


def _verdict(of: Material) -> PageVerdict | None:
    """The verdict of the strongest evidence on the page."""
    trained = [one for one in of.rankers if one.model is not None]
    verdict: PageVerdict | None = None
    if of.comparison is not None:
        verdict = verdict_of(of.comparison)
    elif of.verification is not None:
        verdict = drift_verdict(of.verification)
    elif of.selection is not None:
        verdict = selection_verdict(of.selection)
    elif of.pool is not None:
        verdict = pool_verdict(of.pool)
    elif of.clicks is not None:
        verdict = click_verdict(of.clicks, of.effective_clicks)
    elif trained and trained[0].model is not None:
        verdict = training_verdict(trained[0].name, trained[0].model.record)
    elif of.inspection is not None:
        verdict = inspection_verdict(of.inspection)
    elif of.explanations:
        verdict = explanation_verdict(of.explanations[0])
    return verdict


def script_json(content: Any) -> str:
    r"""JSON for the content of <script>: no text in it can end it, or begin a comment.

    >>> script_json({"text": "</script><!-- & \u2028"})
    '{"text":"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def safe_json(value: Any) -> Any:
    """A value for the page's JSON: sanitized texts, rounded numbers, null for infinite ones."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {str(name): safe_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [safe_json(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _policy(*scripts: str) -> str:
    """The content policy: only these scripts run, and nothing is requested from the network."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as the content of <script>, from an installed package."""
    import vl_convert

    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    # Both occur only in JavaScript strings, in which the escape has the same value.
    return _SCRIPT_END.sub(lambda found: f"\\x3c{found[0][1:]}", text).replace("\r\n", "\n")


@cache
def _template(name: str) -> str:
    return (files("owpc_ltr_report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_template), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_sanitized,
    )  # fmt: skip
    made.filters |= {"cell": _cell, "number": amount, "difference": signed}
    return made


def _cell(value: Any) -> Any:
    """A cell of a table: its first line, and the others in small type below."""
    from markupsafe import Markup, escape

    if not isinstance(value, tuple):
        return plain(value)
    first, *rest = (escape(printable(line)) for line in value)
    under = (Markup('<br><span class="under">{}</span>').format(line) for line in rest)
    return first + Markup("").join(under)


def _sanitized(value: Any) -> Any:
    """Foreign text without control characters; HTML stays."""
    return printable(value) if type(value) is str else value
