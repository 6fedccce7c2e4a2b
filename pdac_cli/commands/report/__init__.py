"""`pdac report`: something to look at."""
