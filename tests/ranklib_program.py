"""RankLib for tests: fetched once a machine, as the node is; where it cannot be had, they skip."""

from __future__ import annotations

import pytest
from owpc_ltr_papers.jobs import RankLib, fetch_ranklib

from owpc_ltr.errors import EngineUnavailable


def ranklib_or_skip() -> RankLib:
    """The program that `reproduce --with-ranklib` runs."""
    try:
        return fetch_ranklib(print)
    except EngineUnavailable as error:
        pytest.skip(f"RankLib cannot be had here: {error}")
