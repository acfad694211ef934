"""Two builds held against each other: what a change did to every kernel, and that it did nothing to the others."""
