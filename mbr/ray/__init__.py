"""The same pipeline on a Ray cluster: windows of lists go to workers, decisions come back in order."""
