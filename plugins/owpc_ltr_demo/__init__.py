"""The main job on text that everybody has: the documentation of the running Python.

- docstrings: a docstring cut into its signature lines, its summary and the rest
- sources: the objects of the standard library's source, parsed and not imported
- compiled: the objects of modules that have no source
- corpus: documents and their index
- judged: queries, judgments, and the pool of each query's candidates
- tuned_bm25, lambdamart: what the model is compared with
- contest: the figures on held-out queries, and what they allow to say
- live: held-out queries searched on the whole corpus
- users: what live searches show, and what simulated users click on; from_clicks: rankers of that
- main_job: the demo, in the steps of preparing and proving; walk: what they share
- narration: what is told meanwhile
"""
