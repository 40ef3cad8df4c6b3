"""Clusters: client, stores, feature logging, search, deployment."""
