"""Bundle: cutting planes of the whole risk."""
