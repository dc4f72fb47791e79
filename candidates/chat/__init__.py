"""Chat servers that speak OpenAI's protocol: the client, templates, questions with a budget and a cache."""
