"""Where the work runs: rows streamed from files through the density and the selection."""
