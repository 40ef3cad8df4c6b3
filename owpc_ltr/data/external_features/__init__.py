"""Features from outside the index, by query and document.

- table: rows found by their keys, read from a Parquet file or a data frame; values of judged pairs
- sources: the sources of external features, as a dataset and a model name them, and pairs of query
  and document
"""
