"""What the compiled reader of LETOR lines and its caller tell each other."""

# What `state` holds, between calls and blocks.
(
    POSITION,  # where in the block reading goes on; after an error, the offending token
    ROW,
    LINE,  # lines read so far, over all blocks
    ROW_OF_QUERY,
    QUERY_LENGTH,  # bytes of the current query id, which `query` holds
    WIDTH,  # the largest feature index so far
    ID_BYTES,  # used in this block's `ids`
    COMMENT_BYTES,
    QUERY_BYTES,
    QUERIES,  # begun in this block
    UNSURE_TOKENS,  # in this block
    TOTAL_ID_BYTES,  # before this block
    TOTAL_COMMENT_BYTES,
    STATE_SIZE,
) = range(14)

DONE, FULL, WIDER = 0, 1, 2
"""Why the reader stopped: end of the block, no row left, no column left."""
(
    BAD_LABEL,
    NEGATIVE_LABEL,
    LARGE_LABEL,
    NO_QUERY,
    EMPTY_QUERY,
    HASH_IN_QUERY,
    LONG_QUERY,
    BAD_FEATURE,
    INDEX_ZERO,
    INDEX_TWICE,
    INDEX_FALLS,
    LARGE_INDEX,
    BAD_VALUE,
    LARGE_VALUE,
    CONTROL,
    NOT_UTF8,
) = range(3, 19)

LARGEST_INDEX = 1_000_000
LONGEST_QUERY = 4096
