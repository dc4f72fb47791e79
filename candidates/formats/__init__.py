"""Candidate lists as files, one module a format."""
