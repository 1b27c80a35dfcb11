"""Promptness is measured on runs that are under way, and with a server that counts."""

import asyncio

import pytest


@pytest.fixture
def promptness(benchmark_module):
    return benchmark_module("promptness")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_agent_is_left_while_all_workers_are_busy(promptness, asynchronous, monkeypatch):
    monkeypatch.setattr(promptness, "SHIELDED_S", 0.01)

    for agent, bar in promptness.AGENTS.values():
        seconds = promptness.seconds_to_leave(agent, asynchronous=asynchronous)
        assert 0 < seconds < 10 * bar


def test_a_missing_key_makes_no_request(promptness, monkeypatch):
    monkeypatch.delenv(promptness.NO_KEY, raising=False)

    assert asyncio.run(promptness.refused(None, asynchronous=False)).requests == 0


def test_a_wrong_key_makes_some(promptness, monkeypatch):
    monkeypatch.setattr(promptness, "SERVICE_S", 0.0)

    assert asyncio.run(promptness.refused("wrong", asynchronous=False)).requests >= 1


def test_calls_at_a_narrow_server_succeed(promptness, monkeypatch):
    monkeypatch.setattr(promptness, "SERVICE_S", 0.01)
    monkeypatch.setattr(promptness, "ROOM", 4)

    succeeded, extra, _ = asyncio.run(promptness.crowded(40))

    assert succeeded == 40
    assert extra > 0
