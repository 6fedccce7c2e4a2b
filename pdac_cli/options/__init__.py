"""One frozen dataclass per command: the only copy of each default (standard library only)."""
