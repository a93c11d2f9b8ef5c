"""The command line: `schedlab`."""

from schedlab.cli.command import main

__all__ = ["main"]
