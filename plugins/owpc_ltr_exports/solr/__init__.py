"""Solr's own learning to rank."""
