"""LETOR/SVMrank text, read and written.

- reading: text → dataset, in blocks; writing: dataset → text
- kernel, strings, codes: the compiled reader of lines; decimals: of numbers
- rows: arrays that grow in place; messages: what is wrong with a line
"""

from owpc_ltr.data.letor.reading import read_letor
from owpc_ltr.data.letor.writing import write_letor

__all__ = ["read_letor", "write_letor"]
