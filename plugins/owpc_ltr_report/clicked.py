"""Judgments from clicks on a page: the verdict, and all of their sections in order."""

from __future__ import annotations

from owpc_ltr_clicks.grading import EffectiveSample
from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr_report.blocks import Section, Tile
from owpc_ltr_report.sections.click_evidence import evidence_section
from owpc_ltr_report.sections.click_models import models_section
from owpc_ltr_report.sections.click_settings import settings_section
from owpc_ltr_report.sections.events import events_section
from owpc_ltr_report.sections.looks import looks_section
from owpc_ltr_report.verdict import NEUTRAL, Verdict


def click_sections(found: ClickJudgments, effective: EffectiveSample | None) -> list[Section]:
    """What became of events, examination, how models predict, what the judgments rest on."""
    made = (
        events_section(found),
        looks_section(found.behaviour.counts, found.chosen),
        models_section(found.chosen),
        evidence_section(found, effective),
        settings_section(found),
    )
    return list(made)


def click_verdict(found: ClickJudgments, effective: EffectiveSample | None) -> Verdict:
    """Which judgments there are, and whether they can be trusted: what to doubt comes first."""
    warnings = [*found.warnings, *(() if effective is None else effective.warnings)]
    counts, account = found.behaviour.counts, found.behaviour.event_counts
    sentence = (
        f"{counts.n_pairs:,} documents of {found.n_queries:,} queries got judgments, by "
        f"{found.chosen.name}: {_why(found)}."
    )
    tiles = (
        Tile("events", f"{account.used:,} used", f"of {account.read:,}"),
        Tile(
            "seen", f"{int(counts.shown.sum()):,} impressions",
            f"{int(counts.clicked.sum()):,} clicks",
        ),
        Tile("judged", f"{counts.n_pairs:,} documents", f"of {found.n_queries:,} queries"),
    )  # fmt: skip
    if warnings:
        first = _sentence(warnings[0])
        mind = f"{first} {sentence}"
        rest = tuple(map(_sentence, warnings[1:]))
        return Verdict("worse", mind, (*rest, _PROMISE), tiles, "Mind the warnings first")
    return Verdict(NEUTRAL, sentence, (_PROMISE,), tiles, "No warnings")


_PROMISE = (
    "A better model of clicks is not yet a better ranking in the eyes of people: let people judge "
    "a sample of the queries, and compare on those."
)


def _why(found: ClickJudgments) -> str:
    told = found.chosen.held_out
    own = next(one for one in told if one.model == found.chosen.name)
    reached = f"log likelihood {own.session_log_likelihood:.4f}, perplexity {own.perplexity:.4f}"
    if len(told) == 1:
        return f"it was asked for ({reached} of the sessions of held-out people)"
    fit = sum(one.identified for one in told) or len(told)
    among = f"{len(told)} click models" + (
        "" if fit == len(told) else f" the log identifies {fit}, of which"
    )
    return f"of {among} it predicts the sessions of held-out people best ({reached})"


def _sentence(warning: str) -> str:
    return f"{warning[:1].upper()}{warning[1:]}."
