"""A local OpenSearch or Elasticsearch node."""
