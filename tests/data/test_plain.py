"""The public face, and the twins of what waits."""

import inspect
import subprocess
import sys

import pytest

from agentdescent import dataloader

TWINS = [name for name in dataloader.__all__ if f"a{name}" in dataloader.__all__]


def test_what_waits_has_a_twin():
    assert TWINS == [
        "fetch_bytes",
        "fetch_text",
        "hf_feature_names",
        "hf_rows",
        "load_gated_hf",
        "select_hard",
        "synthesize",
    ]


@pytest.mark.parametrize("name", TWINS)
def test_twins_take_and_return_the_same(name):
    plain, waiting = getattr(dataloader, name), getattr(dataloader, f"a{name}")

    assert str(inspect.signature(plain)) == str(inspect.signature(waiting))
    assert inspect.iscoroutinefunction(waiting)
    assert not inspect.iscoroutinefunction(plain)


def test_nothing_heavy_is_loaded_before_it_is_needed():
    script = (
        "import sys, agentdescent.dataloader\n"
        "assert not {'httpx', 'tenacity', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
