"""How bytes reach a disk: atomic writes, locks, signals that wait, HDF5 written safely."""
