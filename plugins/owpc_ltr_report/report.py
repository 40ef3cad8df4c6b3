"""`report`: one HTML page of results, to be shown to who never saw the project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr_report.named import Named
from owpc_ltr_report.names import short_name

if TYPE_CHECKING:
    from owpc_ltr_report.assembly import Material
    from owpc_ltr_report.latency import Latency
    from owpc_ltr_report.page import Page

__all__ = ["Named", "read_latency", "report"]


def report(
    *parts: Any,
    out: Path | str | None = None,
    title: str | None = None,
    plugins: Sequence[Path | str] = (),
) -> Page:
    """The page of these results, written to the file `out` where one is named.

    Parts are results in any order: an `Evaluation`, models or their files, a dataset, `Costs`,
    bounds of `risk_bounds`. What a section needs and is not among them is left out, and said. The
    page needs no network; in a notebook it shows itself, and `charts` has its pictures by name.

    Raises UsageError for a part of another kind, BadInput for a file that is no model.
    """
    from owpc_ltr.files.output import output_file, write_output
    from owpc_ltr_report.assembly import page_of
    from owpc_ltr_report.material import material_of

    if out is not None:
        output_file(out, [part for part in parts if isinstance(part, Path | str)])
    material = material_of(parts, plugins)
    page = page_of(material, title or _title(material))
    if out is not None:
        write_output(out, page.html().encode())
    return page


def _title(material: Material) -> str:
    contest = material.contest
    named = [one.name for one in material.rankers]
    if contest is not None:
        new = contest.new.name
        title = f"{new} against {contest.baseline}" if contest.baseline else f"How {new} ranks"
    elif material.verified is not None:
        title = f"{material.verified.model} in {material.verified.index}"
    elif material.selection is not None:
        title = f"Selection over {len(material.selection.folds)} folds"
    elif material.explained and not named:
        title = f"Why “{material.explained[0].query}” ranks as it does"
    elif material.inspection is not None and not named:
        title = f"Data checks of {', '.join(map(short_name, material.inspection.data.names))}"
    elif material.pooled is not None:
        title = "What is to be judged"
    elif material.clicked is not None:
        title = "Judgments from clicks"
    else:
        title = f"Report on {', '.join(named)}" if named else "Report"
    return title


def read_latency(path: Path | str) -> Latency:
    """What `profile --json` printed, or {"feature": milliseconds}, as a part of a report."""
    from owpc_ltr.files.strict_json import read_json_object
    from owpc_ltr_report.latency import latency_of

    return latency_of(read_json_object(Path(path)), str(path))
