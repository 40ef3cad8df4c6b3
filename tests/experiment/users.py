"""Simulated users of an experiment: they want one document, and look at rank k with chance 1/k."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.engine.experiments import Experiment
from owpc_ltr.evaluation.interleaving import interleave

A, B = ["a", "b", "c", "d"], ["c", "a", "b", "d"]
"""Users want c."""
_BEGAN = datetime.now(UTC) + timedelta(minutes=50)
"""After the tests begin, and not so late that a log's time is wrong."""


def query_line(search: str, client: str, attributes: dict[str, Any], shown: Any) -> dict[str, Any]:
    """A query of User Behavior Insights."""
    return {
        "query_id": search,
        "client_id": client,
        "user_query": "red shoe",
        "timestamp": _BEGAN.isoformat(),
        "query_response_hit_ids": shown,
        "query_attributes": attributes,
    }


def click_line(
    search: str, client: str, document: str, attributes: dict[str, Any], second: float = 0.0
) -> dict[str, Any]:
    """A click."""
    return {
        "action_name": "click",
        "query_id": search,
        "client_id": client,
        "timestamp": (_BEGAN + timedelta(seconds=second)).isoformat(),
        "event_attributes": {"object": {"object_id": document}, **attributes},
    }


def log_of_users(
    experiment: Experiment,
    path: Path,
    rng: np.random.Generator,
    *,
    clients: int = 400,
    b_is_better: bool = True,
    wanted: str = "c",
) -> Path:
    """What an application logs that merges both lists with `interleave`."""
    lists = (A, B) if b_is_better else (B, A)
    lines = []
    for number in range(clients):
        client, search = f"u{number}", f"s{number}"
        page = interleave(*lists, experiment=experiment.name, client=client, query="red shoe")
        lines.append(query_line(search, client, page.query_attributes, page.hits))
        # One in ten clicks on what is first, whatever it is.
        seen = page.hits[0] if rng.random() < 0.1 else wanted
        if rng.random() < 1 / (page.hits.index(seen) + 1):
            attributes = page.event_attributes[seen]
            lines.append(click_line(search, client, seen, attributes, number))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path
