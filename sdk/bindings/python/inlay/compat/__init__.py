"""Interfaces of other runtimes on top of inlay."""
