"""User Behavior Insights out of a cluster.

- `snapshot`: an index at one point in time; `download`: both indices, resumable
- `query_join`: events with the queries that they belong to
"""
