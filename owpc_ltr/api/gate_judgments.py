"""What a new model is measured on: judgments of one kind, or proxy labels and some human ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from owpc_ltr.errors import UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.types import Judgments


class GateJudgments(NamedTuple):
    """The judged queries, and human labels of a sample where the first are proxy labels."""

    data: RankingDataset | None
    human: Judgments | RankingDataset | None = None
    strata: Mapping[str, str] | None = None


def gate_judgments(
    metric: Any, data: RankingDataset | None, proxy: Any, human: Any, strata: Any, live: Any
) -> GateJudgments:
    """What was given, read. Raises UsageError for what does not go together."""
    if proxy is None and human is None:
        if strata is not None:
            raise UsageError(
                "strata are of a human-labelled sample: give --proxy-labels and --human-labels"
            )
        return GateJudgments(data)
    if proxy is None or human is None:
        lacking = "--proxy-labels" if proxy is None else "--human-labels"
        raise UsageError(
            "proxy labels are of all queries, human labels of a sample of them, and go together: "
            f"give {lacking}, too"
        )
    if metric is None:
        raise UsageError(
            "--proxy-labels and --human-labels show a gain: name its metric with --require-gain"
        )
    if data is not None or live is not None:
        other = "--data" if data is not None else "--live"
        raise UsageError(f"--proxy-labels and {other} are two ways to show a gain: leave out one")
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.judged_data import read_data
    from owpc_ltr.evaluation.proxy_labels import judged_data, read_strata

    people = read_data(human) if isinstance(human, Path | str) else human
    if isinstance(people, PartitionedDataset):
        people = in_memory(people, "--human-labels")
    return GateJudgments(judged_data(proxy), people, read_strata(strata))


def check_gain(metric: Any, data: Any, live: Any, accepted: str | None) -> None:
    """Refuse a gain without judgments, and what is of a gain where none is required."""
    if metric is not None and data is None and live is None:
        raise UsageError("--require-gain needs judged queries to compare on: give --data FILE")
    if metric is None and live is not None:
        raise UsageError("--live proves a gain: say in which metric with --require-gain")
    if accepted is not None and metric is None:
        raise UsageError("accepting what is unproven is of a gain that is required: leave it out")
    if accepted is not None and not accepted.strip():
        raise UsageError("say why what is unproven is accepted: the reason is kept")
