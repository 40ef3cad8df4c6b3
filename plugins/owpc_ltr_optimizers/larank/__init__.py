"""LaRank: a dual solver to a duality gap."""
