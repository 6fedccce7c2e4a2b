"""Networks: architectures, checkpoints and heads."""
