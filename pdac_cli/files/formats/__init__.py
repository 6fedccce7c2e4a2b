"""The formats that arrays are read from, behind one interface, checked before anything is read."""
