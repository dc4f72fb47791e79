"""mbr-evaluate."""
