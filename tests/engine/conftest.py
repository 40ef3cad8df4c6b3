"""What tests of the engine ask for by this name; the fixtures are those of all tests."""

from tests.session_node import SessionNode, free_port

__all__ = ["SessionNode", "free_port"]
