"""`pdac verify`: whether a file is what it says."""
