"""The page: sections in one HTML file that needs no network, whatever their texts contain."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.evaluation.verdict import Outcome
from owpc_ltr.models.reordering import ReorderingModel
from owpc_ltr.sanitization import printable
from owpc_ltr.version import VERSION
from owpc_ltr_report.blocks import (
    NEUTRAL,
    Chart,
    PageVerdict,
    QueryList,
    Section,
    amount,
    charts_of,
    plain,
    signed,
)
from owpc_ltr_report.charts import VEGA_LITE
from owpc_ltr_report.clicks import click_sections, click_verdict
from owpc_ltr_report.comparison import comparison_section, proxy_labels_section
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
from owpc_ltr_report.record import TrainingRecord, provenance_section
from owpc_ltr_report.training import (
    selection_section,
    selection_verdict,
    training_section,
    training_verdict,
)
from owpc_ltr_report.verdict import verdict_of

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
        return {chart.name: chart for chart in charts_of(self.sections)}

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
            payload=Markup(script_json(_payload(self.sections))),  # noqa: S704
            library=Markup(library), script=Markup(script),  # noqa: S704
        )  # fmt: skip


def page_of(material: Material, title: str) -> Page:
    """The page of all sections that there is material for."""
    made: list[Section] = []
    left_out: list[tuple[str, str]] = []
    for name, how, sections in _SECTIONS:
        found = [one for one in sections(material) if one is not None]
        made += found
        if not found:
            left_out.append((name, how))
    return Page(title, _verdict(material), tuple(made), tuple(left_out))


def _verdict(material: Material) -> PageVerdict | None:
    """The verdict of the strongest evidence on the page."""
    verdict: PageVerdict | None = None
    if material.comparison is not None:
        verdict = verdict_of(material.comparison)
    elif material.verification is not None:
        verdict = drift_verdict(material.verification)
    elif material.selection is not None:
        verdict = selection_verdict(material.selection)
    elif material.pool is not None:
        verdict = pool_verdict(material.pool)
    elif material.clicks is not None:
        verdict = click_verdict(material.clicks, material.effective_clicks)
    elif records := _records(material):
        verdict = training_verdict(*records[0])
    elif material.inspection is not None:
        verdict = inspection_verdict(material.inspection)
    elif material.explanations:
        verdict = explanation_verdict(material.explanations[0])
    return verdict


def _of(field: str, section: Callable[[Any], Section | None]) -> _Sections:
    """The section of a field of the material, if that is there."""

    def sections(material: Material) -> Iterable[Section | None]:
        value = getattr(material, field)
        return [] if value is None else [section(value)]

    return sections


def _examples(material: Material) -> Iterable[Section | None]:
    comparison = material.comparison
    before, after = "the ranking before", "the new ranking"
    if comparison is not None and comparison.baseline is not None:
        before, after = comparison.baseline, comparison.new.name
    examples = *material.examples, *map(explanation_example, material.explanations)
    return [examples_section(examples, before, after)]


def _features(material: Material) -> Iterable[Section | None]:
    data = material.data if isinstance(material.data, RankingDataset) else None
    costs = {} if material.latency is None else material.latency.milliseconds
    for number, each in enumerate(material.rankers):
        model = each.model.base if isinstance(each.model, ReorderingModel) else each.model
        if model is not None:
            yield features_section(each.name, model, data, costs, number)


def _scores(material: Material) -> Iterable[Section | None]:
    data = material.data
    scored = [(one.name, one.scores) for one in material.rankers if one.scores is not None]
    if isinstance(data, RankingDataset) and scored:
        yield scores_section(*scored[0], data)


def _training(material: Material) -> Iterable[Section | None]:
    for number, each in enumerate(material.rankers):
        if each.model is not None:
            record = TrainingRecord(each.model.record)
            yield training_section(each.name, record, each.rank_weights, number)


def _clicks(material: Material) -> Iterable[Section | None]:
    found = material.clicks
    return [] if found is None else click_sections(found, material.effective_clicks)


def _data(material: Material) -> Iterable[Section | None]:
    comparison = material.comparison
    if material.data is not None:
        selection = None if comparison is None else comparison.query_selection
        yield data_section(material.data, selection)


def _provenance(material: Material) -> Iterable[Section | None]:
    return [provenance_section(_records(material), material.bounds)]


def _records(material: Material) -> list[tuple[str, TrainingRecord]]:
    return [
        (each.name, TrainingRecord(each.model.record))
        for each in material.rankers
        if each.model is not None
    ]


_Sections = Callable[[Material], Iterable[Section | None]]
_SECTIONS: tuple[tuple[str, str, _Sections], ...] = (
    ("a comparison", "give judged queries: --data", _of("comparison", comparison_section)),
    (
        "proxy labels", "owpc-ltr compare --proxy-labels --report",
        _of("comparison", proxy_labels_section),
    ),
    (
        "queries before and after", "give a baseline: --baseline feature:NAME",
        _of("comparison", queries_section),
    ),
    ("examples of queries", "owpc-ltr report --data, with a baseline", _examples),
    ("features", "give a model file", _features),
    ("scores", "give a model and a dataset in one file", _scores),
    ("training", "give a model that owpc-ltr trained", _training),
    ("a selection over folds", "owpc-ltr select --report", _of("selection", selection_section)),
    ("latency", "owpc-ltr profile --json, then --feature-cost", _of("latency", latency_section)),
    ("drift", "owpc-ltr verify --report", _of("verification", drift_section)),
    (
        "data checks", "owpc-ltr report --data, or inspect --report",
        _of("inspection", inspection_section),
    ),
    ("a pool to judge", "owpc-ltr judge pool --report", _of("pool", pool_section)),
    ("judgments from clicks", "owpc-ltr judge clicks --report", _clicks),
    ("data", "give judged queries: --data", _data),
    ("provenance", "give a model that owpc-ltr trained", _provenance),
)  # fmt: skip
"""The sections in their order: name, how to get one, and the function of the material."""


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


def _payload(sections: Sequence[Section]) -> Any:
    charts = {chart.name: chart.spec for chart in charts_of(sections)}
    lists = {
        block.name: _query_list(block)
        for section in sections
        for block in section.blocks
        if isinstance(block, QueryList)
    }
    return safe_json({"charts": charts, "queries": lists})


def _query_list(block: QueryList) -> dict[str, Any]:
    return {
        "higher": block.higher_is_better,
        "at_once": QUERIES_AT_ONCE,
        "spec": block.spec,
        "rows": [
            (row.query_id, "" if row.text == row.query_id else row.text, row.before, row.after)
            for row in block.rows
        ],
    }


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
