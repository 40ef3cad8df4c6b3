"""Feature logging: judged queries × feature set × index → a dataset, every judgment accounted for.

- run: `log_features`, the whole job
- job: what is asked of which environment, before the first search
- passes: chunk after chunk out of one moment, again where the moment is lost
- moment: one moment of the index, from which a whole log is
- pinned: a point in time, which the engine holds on to
- remote: chunks whose features worker processes request
- watched: where that cannot be had: contents compared before and after
- copies: of the shards, whether they are alike, and which are asked
- contents: figures that tell whether an index holds what it held
- requests: one query's documents, searched, repeated, halved, confirmed absent
- responses: what a search must answer before it is taken for data
- parameters: what is sent to the templates, and as which type
- environment: what the values depend on besides the documents, observed before and after
- schedule: hours in which the engine may be asked, documents a second
- account: judged = logged + absent + rejected
- chunks: a cut of the judgments, and its values as a file
- folder: the half-done work beside the output: journal and chunk files
- lock: one process at a time
- assembly: chunks → dataset and manifest
- parted: chunks → a folder of parts, or one writer's share of it
"""

from owpc_ltr.engine.feature_log.account import Account
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.parted import Parted
from owpc_ltr.engine.feature_log.run import LogReport, log_features

__all__ = ["Account", "LogOptions", "LogReport", "Parted", "log_features"]
