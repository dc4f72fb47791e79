"""mbr-metaeval: one command, one module for each of its tasks."""
