"""The public calls, one module a kernel family or a chain of them.  Thin: everything general is in `executing`."""
