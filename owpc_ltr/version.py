"""The version, as records and `--version` give it."""

VERSION = "0.1.0"
