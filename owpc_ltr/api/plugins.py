"""Settings and grids of plugins as the command line writes them."""

from owpc_ltr.host.settings import named_grids, named_settings

__all__ = ["named_grids", "named_settings"]
