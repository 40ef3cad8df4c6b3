"""Defaults of the jobs of a cluster."""

DEFAULT_WINDOW = 100
"""How many of the query's best documents to rescore."""
PARITY_TOLERANCE = 1e-5
"""The largest difference of the engine's scores and local ones: a few units of float32."""
MAX_DRIFT = 0.25
"""How far a feature may drift from training to upload, in standard deviations.

Two features that have nothing to do with each other are 1.13 standard deviations apart in the mean
(2/√π, of normal values), ones of correlation ρ √(1 − ρ) times as far: this much is a feature that
has a correlation of .95 with what it was. Documents that come and go change text scores by a few
hundredths; BM25 between OpenSearch 2 and 3, a changed analyzer or another template by .5 and more.
"""
MIN_PROOF_COVERAGE = 0.5
"""The least share of a model's judged documents, and of its queries, that must be in the index."""
