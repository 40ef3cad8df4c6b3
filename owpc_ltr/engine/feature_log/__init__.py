"""Feature logging: judgments × feature set × index → a dataset.

- log_features: the public function; log: the whole job, chunk after chunk out of one snapshot
- request_options: the size of a request, how many at a time, how fast, and at which hours
- job: what is logged of which index, checked before the first search, and its environment
- snapshot: one state of the index: a point in time, or change detection
- feature_reader: the documents of one query, searched, repeated, halved, confirmed absent, counted
- remote: chunks whose features worker processes request
- run_folder: the unfinished work beside the output, and that work as the output
"""
