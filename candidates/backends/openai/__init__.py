"""Candidates from chat servers that speak OpenAI's protocol: prompt, generator."""
