"""mbr-serve."""
