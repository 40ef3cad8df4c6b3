"""Elasticsearch with the LTR plugin: a model as the body of `_createmodel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from owpc_ltr import hookimpl
from owpc_ltr.protocols import ExportTarget
from owpc_ltr_exports.opensearch import OpenSearch


@dataclass(frozen=True)
class Elasticsearch(OpenSearch):
    """Elasticsearch with the LTR plugin: trees, linear models and RankLib's networks."""

    name: ClassVar[str] = "elasticsearch"
    versions: ClassVar[tuple[str, ...]] = ("7.0", "8.11")


@hookimpl
def ltr_export_targets() -> list[type[ExportTarget]]:
    """Offer `--for elasticsearch`."""
    return [Elasticsearch]
