"""Joined tables: features from outside the index, by query, by document, or by both.

- table: rows found by their keys; keys: keys as numbers; texts: the keys themselves
- reading: a Parquet file or a data frame as a table, everything checked
- roles: which columns are keys, and which are features
- asked: pairs of query and document that are looked up
- judged: the columns of all judged pairs, and an account of each table
- served: the columns that a model reads, for the hits of a search
- source: what a dataset and a model say of where joined columns are from
"""
