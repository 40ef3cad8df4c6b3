"""Features from outside the index, by query and document.

- table: rows found by their keys, read from a Parquet file or a data frame
- columns: the values of judged pairs, and of a search's hits
- sources: what a dataset and a model say of where external features are from, and pairs of query
  and document
"""
