"""Experiments with users: two rankers interleaved, and a verdict from clicks at any time.

- `interleaving`: the page that shows both rankers; `verdict`: what clicks say
- `record`: experiments in the cluster; `start`, `status`, `stop`: the commands
- `experiment_log`: what happened, out of User Behavior Insights or files
"""
