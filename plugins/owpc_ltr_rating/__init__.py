"""Judgments by people and by language models: rated, merged, and compared with one another.

- `page`: the sheet of pairs, and the page on which people grade it, as a file or served
- `ratings`: what a rater says of pairs, as lines of JSON, and the judgment reader of these; who
  gave which grade, out of lists of any format; `merge` and `agree` read them
- `language_model`: a language model as a rater, and the canaries that show what sways it
- `push`: judgments, query sets and rankers into OpenSearch's Search Relevance Workbench
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer the commands below `owpc-ltr judge`."""
    return [
        Command(
            "judge page",
            "owpc_ltr_rating.page:judge_page",
            "Write a page on which people grade a sheet.",
        ),
        Command(
            "judge ask",
            "owpc_ltr_rating.language_model:judge_ask",
            "Have a language model grade a sheet.",
        ),
        Command(
            "judge merge",
            "owpc_ltr_rating.merge:judge_merge",
            "Merge judgments of several raters into one list.",
        ),
        Command(
            "judge agree", "owpc_ltr_rating.agree:judge_agree", "Measure how far raters agree."
        ),
        Command(
            "judge push",
            "owpc_ltr_rating.push:judge_push",
            "Put judgments, their queries and a ranker into the workbench.",
        ),
    ]
