"""Streaming methods: what to keep of a batch, what to replay beside it, how to weigh the rows of a step."""
