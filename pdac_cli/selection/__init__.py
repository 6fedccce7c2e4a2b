"""Which rows to keep: drawing, budgets, eviction, and the one table of methods."""
