"""Heads that are trained on a selection, to see what it is worth."""
