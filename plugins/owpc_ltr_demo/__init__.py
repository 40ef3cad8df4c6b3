"""The demo: the whole workflow on Python's documentation.

- demo: the command, and its steps in order
- session: options, printed steps, figures
- corpus: documents of the standard library; queries: queries, candidates and judgments
- preparation: node, index, feature set, logged features; the demo as files
- training: OWPC, trees, LambdaMART, and the tuned full-text query
- evaluation: held-out queries, the upload, live searches
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr demo`."""
    summary = "Run the whole workflow on Python's own documentation."
    return [Command("demo", "owpc_ltr_demo.demo:demo", summary, extra="owpc-ltr[node]")]
