"""Which calls of known models a bundle answers, and which of its rows no model needs."""
