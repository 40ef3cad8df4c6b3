"""Feature logging: judgments × feature set × index → a dataset.

- log_features: the public function; log: the whole job, chunk after chunk out of one snapshot
- job: what is logged of which index, checked before the first search
- options, schedule: how the engine is searched, when, and how fast
- snapshot: one state of the index: a point in time, or change detection
- environment: what values depend on besides the documents, compared before and after
- requests: the documents of one query, searched, repeated, halved, confirmed absent
- remote: chunks whose features worker processes request
- chunks: a cut of the judgments, its values as a file, and LogCounts
- run_folder: the unfinished work beside the output
- assembly: chunks → a dataset or a folder of parts, with a manifest
"""
