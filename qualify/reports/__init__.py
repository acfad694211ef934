"""The reports of a run, one module a format."""
