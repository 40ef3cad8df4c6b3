"""Sections of the report: each a function from one kind of result to a part of the page."""
