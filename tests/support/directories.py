"""Directories as they stand: to compare them before and after."""

from pathlib import Path


def snapshot(root):
    """Every path below `root`: what it is, its mode, and what it holds or points to."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        name = path.relative_to(root).as_posix()
        mode = path.lstat().st_mode & 0o777
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", mode)
        else:
            found[name] = ("file", mode, path.read_bytes() if path.is_file() else b"")
    return found


def names(root):
    """What lies directly in `root`."""
    return sorted(path.name for path in Path(root).iterdir())


def write(root, files):
    """Write text or bytes below `root`."""
    for name, content in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(root)
