"""Explanations: what each feature contributes to each score, and what that does to its rank."""
