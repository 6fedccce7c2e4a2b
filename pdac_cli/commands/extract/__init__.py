"""`pdac extract`."""
