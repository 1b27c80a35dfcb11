"""Directories as artifacts: reading them, writing them, and writing a result back."""

from agentdescent.errors import TreeError
from agentdescent.policy.filetree import FileTree
from agentdescent.policy.filetree_edits import EDIT_PROTOCOL, Edit, parse_edits, render_edits
from agentdescent.policy.filetree_paths import match_any, safe_relpath
from agentdescent.policy.filetree_text import Tree, canonical, parse_tree, tree_summary
from agentdescent.trees.loading import TreeSpec, load_tree
from agentdescent.trees.publishing import WritePlan, write_tree
from agentdescent.trees.writing import EXECUTABLE, materialize

__all__ = [
    "EDIT_PROTOCOL",
    "EXECUTABLE",
    "Edit",
    "FileTree",
    "Tree",
    "TreeError",
    "TreeSpec",
    "WritePlan",
    "canonical",
    "load_tree",
    "match_any",
    "materialize",
    "parse_edits",
    "parse_tree",
    "render_edits",
    "safe_relpath",
    "tree_summary",
    "write_tree",
]
