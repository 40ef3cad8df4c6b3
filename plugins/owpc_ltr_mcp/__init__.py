"""Tools for agents: the jobs of the command line by the Model Context Protocol, with guard rails.

- `tools`: which jobs are tools, their schemas, and their arguments
- `folder`: the folder that holds all files of a session
- `evidence`: what a model must have to become a champion
- `answers`: results and errors as an agent reads them
- `session`: calls of tools, and attempts on the same queries; `server`: the protocol
"""
