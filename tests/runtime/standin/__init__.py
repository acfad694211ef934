"""Stand-ins for the vendors' driver libraries: C sources, and the test's side of them."""
