"""What every command shares: console, configuration, journal and sink, the check of module owners, the launcher."""
