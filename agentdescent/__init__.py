"""Evolve artifacts of LLM agents against examples."""
