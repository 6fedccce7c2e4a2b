"""What our adapters use of Avalanche's published interface (0.6), where it is not installed."""
