"""Fusing lexical and vector search: the engines' own ways, and one learned weight a leg."""
