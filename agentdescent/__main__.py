"""``python -m agentdescent`` is the command line."""

from agentdescent.cli import main

main()
