"""LETOR and SVMrank text, read and written."""

from owpc_ltr.data.letor.text import line_of_row, read_letor, stream_letor, write_letor

__all__ = ["line_of_row", "read_letor", "stream_letor", "write_letor"]
