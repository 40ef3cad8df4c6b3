"""Costs of features, as `train --feature-cost` reads them, and the path that it prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owpc_ltr.cli.files import Reads, read_json_object
from owpc_ltr.cli.output import print_table
from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    from owpc_ltr.training.feature_selection import Costs, Selected


@dataclass(frozen=True)
class FeatureCosts:
    """What features cost, and what that is worth."""

    feature_cost: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="Leave out features that cost more than they are worth: what `profile --json` "
            'printed, or {"feature": milliseconds}. Chosen on the validation queries.'
        ),
    ] = None
    feature_price: Annotated[
        float, typer.Option(min=0, help="What a millisecond must gain of the --select metric.")
    ] = 0.001

    def read(self) -> Costs | None:
        """The costs of the file, if one is given. Raises BadInput naming it and the feature."""
        from owpc_ltr.training.feature_selection import Costs

        path = self.feature_cost
        if path is None:
            return None
        content, derived = read_json_object(path), {}
        if isinstance(content.get("features"), list):
            derived = _derived(content.get("derived", {}), path)
            content = _profiled(content["features"], path)
        for name, cost in content.items():
            if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) < 1e9:
                raise BadInput(f"{path}: the cost of '{name}' is {cost!r}, not milliseconds")
        return Costs(content, self.feature_price, derived)


def print_path(selected: Selected) -> None:
    """Each model that was tried, from all features down, and what was kept."""
    print_table(
        ["LEFT OUT", "FEATURES", "MS", "VALIDATION", "WORTH"],
        [(step.dropped or "–", step.features, step.milliseconds, step.validation, step.worth)
         for step in selected.path],
    )  # fmt: skip
    typer.echo(f"kept {len(selected.kept)} features: {', '.join(selected.kept)}")


def _profiled(features: list[Any], path: Path) -> dict[str, Any]:
    try:
        return {str(feature["feature"]): feature["without"] for feature in features}
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path} is not what profile --json prints: {error}") from error


def _derived(content: Any, path: Path) -> dict[str, list[str]]:
    """The features that each derived one comes from."""
    lists = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(each, list) and all(isinstance(n, str) for n in each) for each in lists):
        raise BadInput(f"{path} is not what profile --json prints: 'derived' names no features")
    return dict(content)
