"""Word-translation tables: trained from parallel text by IBM model 1, kept in one small file, looked up per list."""
