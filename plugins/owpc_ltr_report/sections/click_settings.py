"""Settings of judging by clicks: what is needed to make the judgments again."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from owpc_ltr_clicks.judgments import ClickJudgments

from owpc_ltr_report.blocks import Facts, Section
from owpc_ltr_report.figures import plain


def settings_section(found: ClickJudgments) -> Section:
    """The log and the model with its settings, what counted, how grades and weights are made."""
    options, chosen = found.behaviour.options, found.chosen
    model = chosen.model
    own: list[str] = [one.name for one in fields(model)] if is_dataclass(model) else []
    settings = ", ".join(f"{name}={plain(getattr(model, name))}" for name in own)
    alpha, beta = chosen.fit.prior
    rows = (
        *found.settings,
        ("click model", f"{chosen.name} ({settings})" if settings else chosen.name),
        (
            "prior",
            f"a document draws {alpha / (alpha + beta):.3f} of those who look at it, which weighs "
            f"as {alpha + beta:.1f} looks",
        ),
        ("actions", ", ".join(f"{name}={value:g}" for name, value in options.actions.items())),
        ("impressions", ", ".join(options.impressions)),
        ("lowest rank", plain(options.depth)),
        ("clicks of a session, at most", plain(options.max_clicks_per_session or None)),
        ("sessions of a client, at most", plain(options.max_sessions_per_client or None)),
        ("people who asked a query, at least", plain(options.min_people)),
        ("case of queries", "kept" if options.keep_case else "folded"),
        ("from", options.since or "the beginning"),
        ("until", options.until or "the end"),
    )
    lead = "What is needed to make the judgments again. No user and no session is on this page."
    return Section("settings", "Settings", "How were they made?", lead, (Facts(rows),))
