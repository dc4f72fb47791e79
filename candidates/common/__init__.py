"""The foundation of every package: errors, text files, closing, the cache folder."""
