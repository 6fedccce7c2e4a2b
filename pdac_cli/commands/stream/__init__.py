"""`pdac stream`."""
