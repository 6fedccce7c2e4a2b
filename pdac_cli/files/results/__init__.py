"""What the verbs write and read back: models, states, parts, shards, run folders."""
