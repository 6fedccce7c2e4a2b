"""The engine of a stream: batches to the buffer, the densities that follow them, and all of it as arrays."""
