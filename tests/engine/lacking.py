"""What an engine that was asked for lacks, told by words of refusal: its own, or ours."""

from __future__ import annotations

import os
import re

import pytest

_LACKED = (
    (re.compile(r"that needs OpenSearch 3\.2 or Elasticsearch"), "no scores of a window"),
    (re.compile(r"script_lang not supported \[painless\]"), "no scripts"),
    (re.compile(r"no handler found for uri \[/[^]]*_(update|delete)_by_query"), "no reindexing"),
    (re.compile(r"no handler found for uri \[/_reindex"), "no reindexing"),
    (re.compile(r"failed to find (global )?analyzer \[english\]|analyzer \[english\] has not"),
     "no english analysis"),
    (re.compile(r"unknown (query|field) \[rank_feature\]"), "no rank features"),
)  # fmt: skip


def skip_what_it_lacks(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Turn a failure into a skip where the node that was asked for says what it has not."""
    asked = os.environ.get("OWPC_LTR_TEST_ENGINE", "")
    if not report.failed or not asked or call.excinfo is None:
        return
    reason = lacked(str(report.longrepr))
    if reason is not None:
        report.outcome = "skipped"
        report.longrepr = (
            str(report.location[0]),
            0,
            f"Skipped: {asked}, as Maven has it: {reason}",
        )


def lacked(words: str) -> str | None:
    """What the words of a failure say that the node has not; None where they say nothing of it."""
    return next((what for pattern, what in _LACKED if pattern.search(words)), None)
