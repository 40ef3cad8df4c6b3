"""Tools for agents: the jobs of the command line by the Model Context Protocol, with guard rails.

- `tools`: which jobs are tools, their schemas, their arguments, and the folder of all files
- `evidence`: what a model must have to become a champion
- `session`: calls of tools, answers, and attempts on the same queries; `server`: the protocol
"""
