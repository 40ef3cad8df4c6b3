"""Feature logging: judgments × feature set × index → a dataset.

- log_features: the public function; log: the whole job, chunk after chunk out of one snapshot
- request_options: the size of a request, how many at a time, and which documents may be missing
- job: what is logged of which index, checked before the first search, and its environment
- snapshot: a point in time of the index, and what tells its contents from others
- feature_reader: the documents of one query, searched, repeated, halved, confirmed absent, counted
- run_folder: the unfinished work beside the output, and that work as the output
"""
