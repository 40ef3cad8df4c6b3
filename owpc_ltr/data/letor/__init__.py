"""LETOR and SVMrank text, read and written."""

from owpc_ltr.data.letor.reading import line_of_row, read_letor, stream_letor
from owpc_ltr.data.letor.writing import write_letor

__all__ = ["line_of_row", "read_letor", "stream_letor", "write_letor"]
