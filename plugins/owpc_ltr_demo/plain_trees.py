"""The demo's trees: of 20 pairs of features, so that an engine without any plugin runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owpc_ltr_demo.walk import SELECT, Walk

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.protocols import Model

SETTINGS: dict[str, Any] = {
    "optimizer.depth": 2,
    "optimizer.interactions": 20,
    "optimizer.bins": 64,
    "optimizer.trees": 400,
}


def train_plain_trees(walk: Walk, sides: DatasetSplits[RankingDataset]) -> Model:
    """Boosted trees of 20 pairs of features, as many as validation queries ask for, as a file."""
    from owpc_ltr.formats.plugin_free.trees import plugin_free_trees
    from owpc_ltr.host import registry as registries
    from owpc_ltr.models.model_file import save_model
    from owpc_ltr.protocols import Run
    from owpc_ltr.training.candidates import train_plan
    from owpc_ltr.training.plan import Plan

    title = "grow trees that an engine without any plugin can run, by validation queries"
    with walk.step("trees", title):
        registry = registries.load([])
        plan = Plan(
            registry.find("loss", "lambdarank"), registry.find("optimizer", "boosting"),
            SETTINGS, {}, SELECT,
        )  # fmt: skip
        with walk.narrator.working() as show:
            run = Run(seed=walk.options.seed, threads=walk.options.threads, progress=show)
            trained = train_plan(sides.training, plan, run, sides.validation, sides.source)
        model = trained.model
        save_model(model, walk.options.file("-trees.json"))
        form = plugin_free_trees(model, model.feature_names)
        walk.narrator.line(
            f"LambdaRank, boosted: {trained.fit.certificate.passes} trees of depth 2, of 20 pairs "
            f"of features: as a sum of {form.in_words()}"
        )
        walk.figures["trees"] = {
            "settings": dict(trained.settings),
            "trees": trained.fit.certificate.passes,
            "validation": model.record["validation"],
            "form": form.in_words(),
        }
    return model
