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
"""Stretches of queries that are told apart; a fault in less than 3 % of them is an outlier's."""

FEWEST_IN_BLOCK = 5
"""Queries of a stretch: fewer could not pass the bound of `sample.py` anyway."""

MOVED = 0.25
"""The least distance (Kolmogorov–Smirnov) of a stretch's values from all others that matters."""

SAME_SHAPE = 0.35
"""What is explained (by a factor, by an exchange) must leave less than this share of a distance.

Chance alone leaves about .1 of it for the smallest samples that pass; real drift above .6.
"""

FEWEST_DIFFERENT = 10
"""Different values below which a column is a count or a yes, of which any factor fits some."""

SAME_SPREAD = 0.6
"""A factor keeps the spread of logarithms, a constant that is added does not; 100 queries of
OHSUMED against the rest differ by a fifth."""

FACTOR = 1.8
"""The least factor of a change of units; BM25 of OpenSearch 2 and 3 differ by 2.2.

The last block of movies sorted by one feature has 1.7 times the values of some other.
"""

AT_ONCE = 0.5
"""A unit changes at once: near the border by half of what it changes at all. What rises evenly
over 32 blocks, split where it differs most, changes by a quarter there."""

STRAIGHT = 0.97
"""The correlation of deciles that are a line of one another."""

GAP_SPREAD = 1.5
"""The same of values: in standard deviations of the medians of either population. Of 60 queries
and more, a tenth of them on either side, chance leaves such a gap in less than one of 2,000 columns
(normal, uniform, exponential, log-normal medians), whose sides must be lines of each other too."""

GAP_FACTOR = 3.0
"""The least gap between two populations of queries that stand in no order."""

FEW = 0.01
"""The largest share of rows that is an accident and no population of its own."""

OUTLIER_RATIO = 10.0
"""An outlier is this many times as far from the median as the next value below it.

Ten is a slipped decimal point. Whether so wide a gap is chance is told by the tail below it
(Rényi 1953: k log(x_k / x_{k+1}) of a Pareto tail is exponential), so that votes and prices, whose
tails are heavy, stay silent.
"""

FEWEST_VALUES = 50
"""Values that a tail is judged by."""

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
"""More different grades than these are measurements (click rates), of which none is a typo."""

GAP_OF_GRADES = 2.0
"""A grade is far if its gap is more than twice the next: 0, 1, 3, 7, 15 (gains) are not far."""

ONE_DOCUMENT = 0.05
"""The share of one-document queries that is warned of: they teach nothing and cost judgments."""

WITHOUT_CONTRAST = 0.5
"""The share of queries of one grade that is warned of: OHSUMED and movies have a few per cent."""

SAME_QUERIES = 0.01
"""The share of queries on two sides from which held-out figures are flattered by a per cent."""

WEAK_GAIN = 0.15
"""Labels are said to carry nothing only where a gain of this share of what a random order leaves
would have been seen: on OHSUMED the default gains .3 of it, on movies .85."""

CANARY_LEVEL = 1e-3
"""Level of the test of shuffled labels: they are drawn anew, so that this is its error rate."""

TRIAL_QUERIES = 2_000
"""Queries of the trial with shuffled labels."""

TRIAL_CELLS = 60_000_000
"""Values that the fits of a learning curve may read where none was asked for.

One core read 8 million a second on movies, so that these are about 10 s. It is a size, and not a
time, so that the same data are inspected alike on every machine.
"""

SMALL_GAIN = 0.005
"""A gain that twice the judgments are hardly worth."""
