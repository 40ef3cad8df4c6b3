"""The shipped click models: each file is a plugin, found by its entry point."""
