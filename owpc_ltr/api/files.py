"""Files that commands read whole, what JSON can hold, and where output goes."""

from owpc_ltr.files.output import check_output, is_standard_output, same_file
from owpc_ltr.files.strict_json import finite_json, read_json_object

__all__ = ["check_output", "finite_json", "is_standard_output", "read_json_object", "same_file"]
