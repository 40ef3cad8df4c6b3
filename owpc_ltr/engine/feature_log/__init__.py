"""Feature logging: judged queries × feature set × index → a dataset, every judgment accounted for.

- running: `log_features`, the whole job, chunk by chunk
- asking: one query's documents, searched, repeated, halved, confirmed absent
- answers: what a search must answer before it is taken for data
- parameters: what is sent to the templates, and as which type
- environment: what the values depend on, observed before and after
- accounting: judged = logged + absent + rejected
- chunks: a cut of the judgments, and its values as a file
- folder: the half-done work beside the output: journal and chunk files
- lock: one process at a time
- assembly: chunks → dataset and manifest
- workers: threads that can be left behind
"""

from owpc_ltr.engine.feature_log.account import Account
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.run import LogReport, log_features

__all__ = ["Account", "LogOptions", "LogReport", "log_features"]
