"""Reading a directory as a tree of text files."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentdescent.errors import TreeError
from agentdescent.policy.filetree_paths import MAX_DEPTH, Places, match_any, safe_relpath
from agentdescent.policy.filetree_text import Tree

NAMED = 10
_TEXT = ("md", "txt", "py", "json", "yaml", "yml", "toml", "sh", "cfg", "ini")
_LITTER = ("__pycache__", "node_modules", ".venv", "*.egg-info", ".pytest_cache", ".DS_Store")


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """Which files of a directory are its tree, and how large it may be.

    Attributes:
        include: Globs of files to take; see `match_any`.
        exclude: Globs of files and directories to leave alone, whatever `include` says.
        max_file_bytes: Of one file; the default fits into the trust region of a merge.
        max_files: Files.
        max_total_bytes: Of all files together.
    """

    include: tuple[str, ...] = tuple(f"**/*.{suffix}" for suffix in _TEXT)
    exclude: tuple[str, ...] = tuple(f"**/{name}" for name in (".git", *_LITTER))
    max_file_bytes: int = 28_000
    max_files: int = 200
    max_total_bytes: int = 2_000_000

    def excludes(self, path: str) -> bool:
        """True if the file or directory `path` itself is to be left alone."""
        return match_any(path, self.exclude)

    def selects(self, path: str) -> bool:
        """True if the file `path` is part of the tree."""
        above = path
        while above:
            if self.excludes(above):
                return False
            above = above.rpartition("/")[0]
        return match_any(path, self.include)

    def validate_against(self, trust_region_chars: int) -> None:
        """Check that a merge could take a file of the largest size.

        Raises:
            TreeError: If it could not.
        """
        if self.max_file_bytes > trust_region_chars:
            raise TreeError(
                f"max_file_bytes={self.max_file_bytes} exceeds trust_region_chars="
                f"{trust_region_chars}, so an edit of such a file could not be merged; lower the "
                "one or raise the other"
            )


def load_tree(path: str | os.PathLike[str], spec: TreeSpec | None = None) -> Tree:
    """Read the files of a directory that `spec` selects.

    Links are not followed, and what is behind them is not part of the tree. Which files are
    executable is kept.

    Raises:
        TreeError: If `path` is no directory, nothing is selected, the tree is too large, or files
            cannot be part of one: too large, binary, no UTF-8, or named as no file should be. It
            names up to ten.
        OSError: If something cannot be read.
    """
    spec = spec or TreeSpec()
    root = Path(path).expanduser()
    if not root.is_dir():
        raise TreeError(f"{os.fspath(path)!r} is no directory; give the one to load")
    reader = _Reader(spec)
    reader.read_all(_folders(root.resolve(), spec))
    return reader.tree(os.fspath(path))


def load_readable(fd: int, spec: TreeSpec) -> tuple[Tree, Iterable[str]]:
    """The files of the directory behind `fd` that `spec` selects, and which cannot be part of one.

    Raises:
        TreeError: If the tree is too large.
        OSError: If something cannot be read.
    """
    reader = _Reader(spec)
    reader.read_all(_folders(Path(), spec, fd))
    return reader.found, [*reader.wrong]


def selected(root: Path, spec: TreeSpec) -> list[str]:
    """The paths below `root` that `spec` selects, sorted; links are none of them."""
    found: list[str] = []
    for folder, names, fd in _folders(root, spec):
        for name in names:
            is_file = stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
            if is_file and spec.selects(folder + name):
                found.append(folder + name)
    return sorted(found)


class _Reader:
    def __init__(self, spec: TreeSpec) -> None:
        self._spec = spec
        self._files: dict[str, str] = {}
        self._executable: list[str] = []
        self.wrong: dict[str, str] = {}
        self._places = Places()
        self._total = 0

    @property
    def found(self) -> Tree:
        """What was read."""
        return Tree(self._files, self._executable)

    def read_all(self, folders: Iterable[tuple[str, Iterable[str], int]]) -> None:
        """Take all files of `folders` that are selected."""
        for folder, names, fd in folders:
            for name in sorted(names):
                self._read(folder + name, name, fd)

    def _read(self, path: str, name: str, fd: int) -> None:
        """Take the file `name` of the directory behind `fd`, if it is selected."""
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) or not self._spec.selects(path):
            return
        try:
            self._files[path] = self._text(path, name, fd)
        except TreeError as error:
            self.wrong[path] = str(error)
        if mode & stat.S_IXUSR:
            self._executable.append(path)
        self._refuse_excess()

    def tree(self, root: str) -> Tree:
        """What was read, if all of it could be."""
        if self.wrong:
            more = len(self.wrong) - NAMED
            reasons = [*self.wrong.values()]
            shown = [*reasons[:NAMED], *([f"and {more} more"] if more > 0 else [])]
            raise TreeError(
                f"{root!r} cannot be loaded: {'; '.join(shown)}; exclude them in the TreeSpec"
            )
        if not self._files:
            raise TreeError(
                f"{root!r} has no file that is selected; change include in the TreeSpec"
            )
        return self.found

    def _text(self, path: str, name: str, fd: int) -> str:
        if safe_relpath(path) != path:
            raise TreeError(f"the path {path!r} is refused: it is not in its normal form")
        if other := self._places.collision(path):
            raise TreeError(f"{path!r} and {other!r} cannot lie beside each other everywhere")
        self._places.add(path)
        data = _content(name, fd, self._spec.max_file_bytes + 1)
        if len(data) > self._spec.max_file_bytes:
            raise TreeError(f"{path!r} has more than {self._spec.max_file_bytes} bytes")
        if b"\0" in data:
            raise TreeError(f"{path!r} is binary")
        self._total += len(data)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise TreeError(f"{path!r} is not UTF-8") from None

    def _refuse_excess(self) -> None:
        spec = self._spec
        if len(self._files) > spec.max_files:
            raise TreeError(
                f"there are more than max_files={spec.max_files} files; select fewer, or raise it "
                "in the TreeSpec"
            )
        if self._total > spec.max_total_bytes:
            raise TreeError(
                f"the files have more than max_total_bytes={spec.max_total_bytes} together; select "
                "fewer, or raise it in the TreeSpec"
            )


def _folders(
    root: Path, spec: TreeSpec, dir_fd: int | None = None
) -> Iterator[tuple[str, Iterable[str], int]]:
    """Every directory that is not excluded: its path with a slash, its files, a descriptor.

    Where paths are too long for a tree anyway, it goes no deeper.
    """
    walk = os.fwalk(root, follow_symlinks=False, onerror=_raise, dir_fd=dir_fd)
    for above, folders, names, fd in walk:
        relative = Path(above).relative_to(root).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        is_deep = prefix.count("/") > MAX_DEPTH
        inner = [] if is_deep else sorted(folders)
        folders[:] = [name for name in inner if not spec.excludes(prefix + name)]
        yield prefix, names, fd


def _raise(error: OSError) -> None:
    raise error


def _content(name: str, fd: int, most: int) -> bytes:
    """The first bytes of a file, without waiting for anybody."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=fd), "rb") as file:
        return file.read(most)
