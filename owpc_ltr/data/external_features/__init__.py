"""Features from outside the index, by query and document.

- table: rows found by their keys; reading: a Parquet file or a data frame as a table
- pairs: query and document, looked up; columns: the values of judged pairs, and of a search's hits
- source: what a dataset and a model say of where external features are from
"""
