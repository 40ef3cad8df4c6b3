"""What features are worth to a model: new ones before everything is logged again, and old ones.

- `featureset_try`: the command
- `new_columns`: new features logged for the documents of a dataset, joined to it, and written
- `trial`: a kind of model by folds, with and without some features, and what the difference says
"""

from __future__ import annotations

from owpc_ltr import hookimpl
from owpc_ltr.host.commands import Command


@hookimpl
def ltr_commands() -> list[Command]:
    """Offer `owpc-ltr featureset try`."""
    return [
        Command(
            "featureset try",
            "owpc_ltr_feature_trials.featureset_try:featureset_try",
            "Measure what new features add to a model, before everything is logged again.",
        )
    ]
