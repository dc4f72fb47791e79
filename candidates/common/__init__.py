"""What every package stands on: errors, text files, closing, the cache folder."""
