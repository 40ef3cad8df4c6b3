"""The style of all charts: colours of bars and series, shapes, heights, and defaults of axes.

Colours are names of `templates/colours.css`, which has them for light pages, dark pages and paper.
"""

from __future__ import annotations

from typing import Any

from owpc_ltr.evaluation.significance import Outcome

Spec = dict[str, Any]

AFTER, BEFORE, LOSS = "var(--after)", "var(--before)", "var(--loss)"
"""Colours of the new ranker (and of bars), of what it is compared with, and of losses."""
INK, QUIET = "var(--ink)", "var(--quiet)"

BAR: Spec = {"type": "bar", "height": {"band": 0.62}}
BAR_COLOUR: Spec = {"condition": {"test": "datum.value < 0", "value": LOSS}, "value": AFTER}
COLUMN: Spec = {"type": "bar", "color": AFTER, "width": {"band": 0.75}}
AREA: Spec = {"type": "area", "color": AFTER, "opacity": 0.18}
POINT: Spec = {"type": "point", "filled": True}
RULE: Spec = {"type": "rule"}

SERIES = (AFTER, LOSS, "var(--third)", "var(--fourth)", QUIET)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4])
"""Series differ by colour, and by shape or dash."""

OUTCOME_COLOURS = {
    Outcome.BETTER: AFTER,
    Outcome.NO_DIFFERENCE: QUIET,
    Outcome.WORSE: LOSS,
    Outcome.CANNOT_TELL: QUIET,
}
OUTCOME_SHAPES = {
    Outcome.BETTER: "triangle-right",
    Outcome.NO_DIFFERENCE: "circle",
    Outcome.WORSE: "triangle-left",
    Outcome.CANNOT_TELL: "diamond",
}
OUTCOME_LEGEND = ("▶ better", "● no significant difference", "◀ worse", "◆ cannot tell")
CHANGE_COLOURS = {"worse": LOSS, "same": QUIET, "better": AFTER}
CHANGE_SHAPES = {"worse": "triangle-left", "same": "circle", "better": "triangle-right"}

ROW_HEIGHT = 26
SVG_WIDTH = 620
NUMBER_AXIS: Spec = {"tickCount": 6, "labelOverlap": True}
NAME_AXIS: Spec = {"grid": False, "ticks": False, "domain": False, "labelPadding": 8}
