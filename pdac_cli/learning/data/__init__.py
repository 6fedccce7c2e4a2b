"""Images and samples: where they come from, how they are prepared, and their tasks."""
