"""Several processes on one ledger, and processes with a hostile environment."""

import json

import pytest

from agentdescent.ledger import GitLedger
from support.ledgers import state_of

INCREMENT = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    await ledger.register(stored({"n": "0"}))
    print("ready", flush=True)
    sys.stdin.readline()
    conflicts = 0
    for _ in range(int(sys.argv[2])):
        while True:
            state, version = await state_of(ledger)
            try:
                await commit(ledger, {"n": str(int(state["n"]) + 1)}, version)
                break
            except CASConflict:
                conflicts += 1
    await ledger.close()
    print(conflicts)

anyio.run(main)
"""


def run_together(processes):
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return [out for out, _ in outputs]


@pytest.mark.timeout(60)
def test_four_processes_lose_none_of_200_increments_each(tmp_path, spawn, git):
    run_together([spawn(INCREMENT, tmp_path, 200) for _ in range(4)])

    assert git(tmp_path, "show", "dev:artifacts/skill/state/n") == "800"
    assert (
        json.loads(git(tmp_path, "show", "dev:ledger.json"))["artifacts"]["skill"]["version"] == 801
    )
    assert git(tmp_path, "rev-list", "--count", "dev").strip() == "802"
    assert git(tmp_path, "fsck", "--strict") == ""


CREATE = """
async def main():
    ledger = GitLedger(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await ledger.open()
    await ledger.register(stored({}, sys.argv[2]))
    await ledger.close()

anyio.run(main)
"""


def test_six_processes_may_make_one_ledger_at_once(tmp_path, spawn, git):
    path = tmp_path / "ledger"
    run_together([spawn(CREATE, path, f"skill-{number}") for number in range(6)])

    assert [entry.name for entry in path.iterdir()] == [".git"]
    listed = json.loads(git(path, "show", "dev:ledger.json"))["artifacts"]
    assert sorted(listed) == [f"skill-{number}" for number in range(6)]
    assert git(path, "log", "--format=%s", "--reverse", "stable").splitlines()[0] == "genesis"


KILLED = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    await ledger.register(stored({"n": "0"}))
    version = 1
    while True:
        _, version = await commit(ledger, {"n": str(version)}, version)
        print(version, flush=True)

anyio.run(main)
"""


@pytest.mark.asyncio
async def test_what_was_committed_survives_a_kill(tmp_path, spawn, git):
    process = spawn(KILLED, tmp_path)
    versions = [process.stdout.readline() for _ in range(20)]
    process.kill()
    acknowledged = int([*versions, *process.stdout][-1])

    ledger = GitLedger(tmp_path)
    await ledger.open()
    _, version = await state_of(ledger)
    assert version - acknowledged in {0, 1}
    assert git(tmp_path, "fsck", "--strict", "--no-dangling") == ""
    await ledger.close()


ONE_RUN = """
async def main():
    ledger = GitLedger(sys.argv[1])
    await ledger.open()
    await ledger.register(stored({"notes.json": "line\\r\\n", "x.py": "é"}))
    await commit(ledger, {"notes.json": "other\\r\\n"}, 1)
    await ledger.promote("skill")
    assert await state_of(ledger, branch="stable") == ({"notes.json": "other\\r\\n"}, 2)
    await ledger.close()

anyio.run(main)
"""

HOSTILE = """\
[user]
    signingkey = none
[commit]
    gpgsign = true
[tag]
    gpgsign = true
[gpg]
    program = /bin/false
[core]
    hooksPath = {hooks}
    excludesFile = {hooks}/excludes
    attributesFile = {hooks}/attributes
    autocrlf = true
    eol = crlf
    fsync = all
[init]
    defaultBranch = trunk
    templateDir = {hooks}
    defaultObjectFormat = sha256
[extensions]
    objectFormat = sha256
"""


@pytest.fixture
def hostile_home(tmp_path):
    """A home whose git configuration breaks what it can, and leaves a trace when a hook runs."""
    home, hooks = tmp_path / "home", tmp_path / "hooks"
    (home / ".config" / "git").mkdir(parents=True)
    hooks.mkdir()
    (hooks / "excludes").write_text("*.json\n*\n")
    (hooks / "attributes").write_text("* text eol=crlf\n")
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    text = HOSTILE.format(hooks=hooks)
    (home / ".gitconfig").write_text(text)
    (home / ".config" / "git" / "config").write_text(text)
    return home


def env_of(home):
    return {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "GIT_CONFIG_GLOBAL": home / ".gitconfig",
        "GIT_CONFIG_SYSTEM": home / ".gitconfig",
    }


def assert_good(path, git):
    assert git(path, "log", "--format=%s|%an|%G?", "dev").splitlines() == [
        "merge w0:1 into skill (v1 -> v2)|agentdescent|N",
        "register skill|agentdescent|N",
        "genesis|agentdescent|N",
    ]
    assert git(path, "cat-file", "-s", "dev:artifacts/skill/state/notes.json").strip() == "7"


def test_the_users_configuration_has_no_effect(tmp_path, hostile_home, python, git):
    python(ONE_RUN, tmp_path / "ledger", **env_of(hostile_home))

    assert_good(tmp_path / "ledger", git)
    assert not (tmp_path / "hook-ran").exists()


@pytest.mark.parametrize(
    "break_it",
    [
        lambda file: file.write_text("[core\nbroken"),
        lambda file: file.write_bytes(b"\xff\x00"),
        lambda file: file.unlink() or file.mkdir(),
        lambda file: file.unlink() or file.symlink_to(file),
    ],
    ids=["syntax", "binary", "directory", "loop"],
)
def test_a_broken_configuration_has_no_effect(tmp_path, hostile_home, python, git, break_it):
    break_it(hostile_home / ".gitconfig")
    break_it(hostile_home / ".config" / "git" / "config")
    python(ONE_RUN, tmp_path / "ledger", **env_of(hostile_home))
    assert_good(tmp_path / "ledger", git)


def test_the_environment_of_git_points_nowhere(tmp_path, python, git, listing):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    git(theirs, "init", "--quiet", "--initial-branch=main")
    (theirs / "mine.txt").write_text("mine")
    git(theirs, "add", ".")
    git(theirs, "commit", "--quiet", "-m", "mine")
    before = listing(theirs)

    python(
        ONE_RUN,
        tmp_path / "ledger",
        GIT_DIR=theirs / ".git",
        GIT_WORK_TREE=theirs,
        GIT_INDEX_FILE=theirs / ".git" / "index",
        GIT_OBJECT_DIRECTORY=theirs / ".git" / "objects",
        GIT_ALTERNATE_OBJECT_DIRECTORIES=theirs / ".git" / "objects",
        GIT_COMMON_DIR=theirs / ".git",
        GIT_NAMESPACE="ns",
        GIT_AUTHOR_NAME="someone",
        GIT_COMMITTER_EMAIL="someone@example.org",
    )

    assert listing(theirs) == before
    assert_good(tmp_path / "ledger", git)


UNREADABLE = """
import shutil, tempfile
import agentdescent.ledger.session  # as nobody it could not be loaded

async def main():
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    (path / "home").mkdir()
    os.chmod(path / "home", 0)
    os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = str(path / "home")
    if not os.getuid():
        os.chown(path, 65534, 65534)
        await anyio.to_thread.run_sync(os.getpid)  # whatever loads late, loads now
        os.setresuid(65534, 65534, 0)
    try:
        ledger = GitLedger(path / "ledger")
        await ledger.open()
        await ledger.register(stored())
        await ledger.close()
    finally:
        os.setresuid(os.getresuid()[2], os.getresuid()[2], -1)
        shutil.rmtree(path)

anyio.run(main)
"""


def test_an_unreadable_home_has_no_effect(python):
    python(UNREADABLE)
