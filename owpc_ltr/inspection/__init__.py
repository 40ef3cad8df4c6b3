"""Inspection: what is wrong with judged queries and their features, before anything is learned."""
