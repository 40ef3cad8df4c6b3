"""Where each check begins to speak, and why there: bounds where there is one, else by measurement.

"Clean" below are MSRD movies (13,000 queries) and OHSUMED in its LETOR 2.0 and 3.0 forms, which
must raise no warning.
"""

CHANCE = 1e-3
"""The chance that a check by a bound speaks of clean data, all columns and places together."""

FEWEST_QUERIES = 20
"""Below these a share of queries says nothing: 0 of 20 leaves up to 14 % possible (95 %)."""

SAMPLE_DOCUMENTS = 50_000
"""Documents that are compared by value: quantiles are then good to .01 (Dvoretzky et al.)."""

SAMPLE_CELLS = 1 << 24
"""The same in values, for wide data: 64 MiB."""

BLOCKS = 32
"""Stretches of queries that are told apart; a fault in less than 3 % of them is not seen."""

FEWEST_IN_BLOCK = 5
"""Queries of a stretch: fewer could not pass the bound of `sample.py` anyway."""

DRIFT = 0.25
"""The least distance (Kolmogorov–Smirnov) of a file's values from all others that matters: the
folds of OHSUMED are nearer."""

OFTEN_MISSING = 0.95
"""Above this share a column is noted: in clean data fields that few documents have reach .9."""

RARELY_ABSENT = 0.5
NEARLY = 0.5
"""A column is gone from queries by accident where it is elsewhere mostly there, and where not half
as many queries lack most of it as lack all: in movies text scores have 10 and more for each."""

ALWAYS_ABSENT = 0.995
MUCH_PRESENT = 0.7
"""A stretch where a column is gone, against at most so often absent elsewhere."""

REVERSED = 0.05
"""The share of queries with labels against the others that is warned of: of movies by ten simple
features .02 look so, as queries that the features do not know."""

NO_AGREEMENT = 0.25
"""Labels of a stretch agree with a ranker of the others by less than this part of what those do."""

SAME_FEATURES = 0.003
"""The share of documents with the features of another and another grade, where none has an id:
without their ids OHSUMED has .0001 to .0008 of them."""

LEAK_BINS = 256
SEPARATED = 0.98
"""What a column that knows the grade has right of the pairs; strong honest ones have .9."""

FEWEST_SPIKES = 3
"""Queries without any value of a column: two could be two odd queries."""

LEVELS = 20
"""More different grades than these are measurements (click rates)."""

SAME_QUERIES = 0.01
"""The share of queries on two sides from which held-out figures are flattered by a per cent."""
