"""The page to try the service in a browser: static files, which `mbr.serve.app` sends."""
