"""Qualification where the device is: needs `assay.runtime`, `bundle` and `reference`, numpy and torch, and no more."""
