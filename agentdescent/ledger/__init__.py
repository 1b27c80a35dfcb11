"""Where artifacts live: git through pygit2, or memory."""
