"""What `train` says of how a fit ended is what its optimizer knows, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from owpc_ltr.protocols import Certificate
from owpc_ltr.training.train import _ending


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"stop_reason": "gap within 0.001", "passes": 4, "nonzero_duals": 318},
            "; gap within 0.001 (4 passes, 318 non-zero duals)",
        ),
        ({"stop_reason": "no gain", "passes": 200}, "; no gain (200 passes)"),
        ({"passes": 200}, "; 200 passes"),
        ({"stop_reason": "solved"}, "; solved"),
        ({}, ""),
    ],
)
def test_only_what_is_known_is_said(known: dict[str, Any], said: str) -> None:
    assert _ending(Certificate(1.0, **known).as_dict()) == said
