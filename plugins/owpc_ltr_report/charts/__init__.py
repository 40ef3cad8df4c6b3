"""Charts: each a function from figures to a Vega-Lite specification, which is plain JSON."""
