"""Where feature sets and models live in a cluster: with the LTR plugin, or without it."""
