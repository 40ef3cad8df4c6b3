"""On every kind of users and rankers the shipped models judge better than SRW's COEC."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "clicks.py"
SPECIFICATION = importlib.util.spec_from_file_location("clicks_benchmark", FILE)
assert SPECIFICATION is not None
assert SPECIFICATION.loader is not None
clicks = importlib.util.module_from_spec(SPECIFICATION)
sys.modules["clicks_benchmark"] = clicks
SPECIFICATION.loader.exec_module(clicks)


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("setting", clicks.SETTINGS)
def test_every_model_orders_documents_better_than_srw(setting: str) -> None:
    users, rankers = clicks.SETTINGS[setting]
    for seed in range(2):
        found = clicks.judged(users, rankers, 20_000, seed)
        srw = found.ndcg["SRW's COEC"]
        for model in ("coec", "pbm", "sdbn"):
            assert found.ndcg[model] > srw + 0.01
        best = max(found.ndcg[model] for model in ("coec", "dctr", "pbm", "sdbn"))
        assert found.ndcg[clicks.AUTO] > best - 0.01
        assert found.ndcg["coec"] > found.ndcg["COEC, no prior"] + 0.01
        if users.kind == "position":
            assert found.examination < 0.05
