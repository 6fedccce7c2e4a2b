"""The only home of h5py: feature files, model files, index files; every write is atomic."""
