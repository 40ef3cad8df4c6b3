"""Models of other tools and engines, read and written; nothing here uses the network."""
