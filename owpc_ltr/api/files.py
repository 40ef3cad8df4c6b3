"""Files that commands read whole."""

from owpc_ltr.files.json_object import read_json_object

__all__ = ["read_json_object"]
