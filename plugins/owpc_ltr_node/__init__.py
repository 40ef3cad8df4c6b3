"""A real OpenSearch or Elasticsearch node on this machine: `owpc-ltr engine start`."""
