"""mbr-decode."""
