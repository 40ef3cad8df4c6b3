"""Export targets."""
