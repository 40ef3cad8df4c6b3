"""The table of commands: each is a public function; plugins add others with `ltr_commands`."""

from __future__ import annotations

from owpc_ltr.host.commands import Command

_CORE = {
    "init": (
        "engine.project:init",
        "Write a project file: what commands repeat, as far as cluster and folder tell.",
    ),
    "index": ("engine.index:index", "Index documents, every one accounted for."),
    "inspect": ("inspection.inspect:inspect", "Look for faults in data before training."),
    "evaluate": ("evaluation.evaluate:evaluate", "Measure a ranker on held-out judged queries."),
    "compare": ("evaluation.compare:compare", "Compare rankers on the same judged queries."),
    "compare-live": (
        "engine.live_results.compare_live:compare_live",
        "Compare rankers, or one with the query alone, by live results of the whole index.",
    ),
    "average": ("models.combined:average", "Make one model that averages the scores of several."),
    "log-features": (
        "engine.feature_log.log_features:log_features",
        "Log the engine's features of judged documents.",
    ),
    "train": ("training.train:train", "Train a ranker; validation queries choose its settings."),
    "train-reranker": (
        "training.train_reranker:train_reranker",
        "Train a reranker, which reorders the lists of a base ranker.",
    ),
    "select": ("training.select:select", "Compare losses, optimizers and settings over folds."),
    "fuse": (
        "fusion.fuse:fuse",
        "Learn one weight for each leg of a hybrid search, or say why not to fuse.",
    ),
    "explain": (
        "engine.explain_search:explain_ranking",
        "Explain how a ranker orders a query's documents.",
    ),
    "search": (
        "engine.search.search:search",
        "Search without and with a model; show both rankings.",
    ),
    "request": (
        "engine.search.request:request",
        "Print the search request that an application sends.",
    ),
    "profile": (
        "engine.profile:profile",
        "Time the cost of features, windows and a model in a search.",
    ),
    "lint": (
        "fusion.lint:lint",
        "Find what spoils hybrid search in a request or its search pipeline.",
    ),
    "import": (
        "formats.import_export:import_model",
        "Convert a model of another library, and report what changed.",
    ),
    "export": (
        "formats.import_export:export_model",
        "Write a model as a file that an engine takes.",
    ),
    "partition": ("data.datasets:partition", "Write datasets as one folder of Parquet files."),
    "upload": (
        "engine.deployment.upload:upload",
        "Store a model, check its scores in the engine, switch its alias.",
    ),
    "verify": (
        "engine.deployment.verify:verify",
        "Check an uploaded model again, and look for drift.",
    ),
    "models": ("", "Uploaded models and their aliases."),
    "models show": (
        "engine.deployment.uploaded_models:show_models",
        "List the aliases and their models, or show one model.",
    ),
    "models delete": (
        "engine.deployment.uploaded_models:delete",
        "Delete a model, a name with all of its models, or all unused models.",
    ),
    "models diff": ("engine.deployment.uploaded_models:diff", "Show how two models differ."),
    "models promote": (
        "engine.deployment.uploaded_models:promote",
        "Switch an alias to its challenger, or to another of its models.",
    ),
    "models rollback": (
        "engine.deployment.uploaded_models:rollback",
        "Roll an alias back to its previous model.",
    ),
    "featureset": ("", "Feature sets of the cluster."),
    "featureset suggest": (
        "engine.feature_sets:suggest",
        "Write a first feature set for an index, from the types of its fields.",
    ),
    "featureset push": (
        "engine.feature_sets:push",
        "Try every feature of a set on the index, then store the set.",
    ),
    "featureset show": (
        "engine.feature_sets:show",
        "List the feature sets of the cluster, or print the features of one.",
    ),
    "featureset delete": (
        "engine.feature_sets:delete",
        "Delete a feature set that no uploaded model uses.",
    ),
    "judge": ("", "Judgments by people, clicks and models."),
    "judge convert": ("engine.workbench:convert_judgments", "Write judgments in another format."),
    "judge pool": (
        "engine.live_results.judge_pool:judge_pool",
        "Write a sheet of the rankers' top documents, for people to grade.",
    ),
    "plugins": ("", "Plugins, and the conventions of metrics."),
    "plugins show": (
        "host.plugin_list:plugins",
        "List the installed plugins, or the settings of one.",
    ),
    "plugins check": (
        "plugin_checks.check:check",
        "Test whether plugins fulfil the contract of their kind.",
    ),
    "plugins metrics": (
        "evaluation.metric_explanation:metrics",
        "Explain metrics, and why other libraries' figures differ.",
    ),
}
"""Where each command of the core is, and its summary; a group of commands is nowhere."""
COMMANDS = tuple(
    Command(name, place and f"owpc_ltr.{place}", summary)
    for name, (place, summary) in _CORE.items()
)
"""The commands of the core; a test compares each summary with its function's docstring."""
