"""What several verbs share: opening input, fitting, selecting, evaluating."""
