"""One verb per file, each ``run(options) -> summary``."""
