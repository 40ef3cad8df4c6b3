"""Files that commands read whole, and what JSON can hold."""

from owpc_ltr.files.finite_json import finite_json
from owpc_ltr.files.json_object import read_json_object

__all__ = ["finite_json", "read_json_object"]
