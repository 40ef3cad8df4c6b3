"""The page that a job writes beside its result, by the command `report` of a plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.errors import PluginError
from owpc_ltr.host.commands import public_function
from owpc_ltr.signatures import Writes


class WritesReport(Writes):
    """A parameter that names the page: it is checked that a plugin can write pages."""

    def check(self, path: Path | str, inputs: list[Path | str]) -> None:
        """Raise UsageError for a file that cannot be written, PluginError without the plugin."""
        super().check(path, inputs)
        _report()


ReportPage = Annotated[
    Path | str | None,
    WritesReport(
        "Also write an HTML page to show to others, to this file.",
        standard_output="--report writes a page to open in a browser: name a file, not -",
    ),
]
"""The parameter `report` of jobs."""


def write_report(results: Any, out: Path | str | None, plugins: Sequence[Path | str] = ()) -> None:
    """Write the page of one result, or of several in a list, unless `out` is None."""
    if out is not None:
        _report()(results, out=out, plugins=plugins)


def _report() -> Any:
    found = public_function("report")
    if found is None:
        raise PluginError("no plugin offers the command 'report': install owpc-ltr again")
    return found
