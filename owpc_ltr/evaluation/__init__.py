"""How good rankings are, and whether that can be chance."""
