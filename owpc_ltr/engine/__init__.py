"""The cluster: the client, the stores, the local node, feature logging and deployment."""
