"""mbr-compare."""
