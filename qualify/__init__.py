"""Gates, selection of candidates, the lock, reports and the command line."""
