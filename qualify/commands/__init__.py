"""One module a command: options in, exit status and printed text out; the work is done below."""
