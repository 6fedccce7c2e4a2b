"""`pdac valex`."""
