"""User code: the executor, completions, and agents made of them."""
