"""Datasets larger than memory: folders of Parquet parts.

`bucket=K/part-NNNNN.parquet`: each part is a dataset file with whole queries, in whole row groups;
`_manifest.json`, written last, says which parts there are and what they hold.
"""
