"""The command mbr-tune."""
