"""Index files: which rows are kept."""
