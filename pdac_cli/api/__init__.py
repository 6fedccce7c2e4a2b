"""What other programs call: the public names, with arrays or files in and arrays out."""
