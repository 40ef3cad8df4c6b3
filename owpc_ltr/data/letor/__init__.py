"""LETOR and SVMrank text, read and written."""

from owpc_ltr.data.letor.text import read_letor, stream_letor, write_letor

__all__ = ["read_letor", "stream_letor", "write_letor"]
