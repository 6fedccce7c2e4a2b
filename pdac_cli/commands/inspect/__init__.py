"""`pdac inspect`: what a file is, in a screenful."""
