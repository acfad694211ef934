"""Compilers compared: isolated environments, the same specs built by each, one report of what an upgrade changes."""
