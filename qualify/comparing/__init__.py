"""Comparing what two builds made, kernel by kernel."""
