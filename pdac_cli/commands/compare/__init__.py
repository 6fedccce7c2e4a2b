"""``pdac compare``: selection methods side by side."""
