import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.reply import Tokens
from agentdescent.pricing import Price, Prices

MILLION = Tokens(1_000_000, 1_000_000)


class TestPrice:
    def test_it_is_by_the_million(self):
        assert Price(input=3.0, output=15.0).cost(Tokens(500_000, 100_000)) == 3.0

    def test_cached_tokens_cost_what_they_cost(self):
        price = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=4.0)

        tokens = Tokens(1_000_000, 0, cache_read=500_000, cache_write=250_000)
        assert price.cost(tokens) == 0.25 * 3.0 + 0.5 * 0.3 + 0.25 * 4.0

    def test_they_cost_as_much_as_others_unless_it_is_said(self):
        tokens = Tokens(1_000_000, 0, cache_read=500_000, cache_write=250_000)

        assert Price(input=3.0, output=15.0).cost(tokens) == 3.0

    def test_reasoning_is_a_part_of_the_output(self):
        assert Price(1.0, 10.0).cost(Tokens(0, 1_000_000, reasoning=900_000)) == 10.0

    @pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1"])
    @pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write"])
    def test_what_is_no_price_is_refused(self, name, value):
        with pytest.raises(ValueError, match=f"{name}={value!r} is no price"):
            Price(**{"input": 1.0, "output": 1.0, name: value})

    @pytest.mark.parametrize("name", ["input", "output"])
    def test_tokens_in_and_out_must_have_one(self, name):
        with pytest.raises(ValueError, match=f"{name}=None is no price"):
            Price(**{"input": 1.0, "output": 1.0, name: None})

    @given(st.builds(Tokens, *[st.integers(0, 9999)] * 2), st.builds(Tokens, st.integers(0, 9999)))
    def test_calls_cost_together_what_they_cost_apart(self, first, second):
        price = Price(input=3.0, output=15.0, cache_read=0.5)

        together = price.cost(first + second)
        assert together == pytest.approx(price.cost(first) + price.cost(second))


class TestList:
    def test_it_knows_the_price_by_provider_and_model(self):
        assert Prices().find("anthropic", "claude-opus-4-8").cost(MILLION) == 30.0
        assert Prices().find("openai", "gpt-4o").cost(MILLION) == 12.5

    def test_cached_tokens_are_cheaper(self):
        tariff = Prices().find("anthropic", "claude-opus-4-8")

        assert tariff.cost(Tokens(1_000_000, 0, cache_read=1_000_000)) == 0.5
        assert tariff.cost(Tokens(1_000_000, 0, cache_write=1_000_000)) == 6.25

    def test_more_cached_than_there_are_does_no_harm(self):
        assert Prices().find("anthropic", "claude-opus-4-8").cost(Tokens(10, 0, 99, 99)) > 0

    @pytest.mark.parametrize(
        ("provider", "model", "endpoint"),
        [
            ("anthropic", "no-such-model", ""),
            ("nobody", "gpt-4o", ""),
            ("", "gpt-4o", ""),
            ("openai", "gpt-4o", "http://localhost:8000/v1"),
            ("openai", "gpt-4o", "http://127.0.0.1:8000/v1"),
            ("openai", "gpt-4o", "http://192.168.0.7/v1"),
            ("openai", "gpt-4o", "http://gpu-box:8000/v1"),
            ("openai", "gpt-4o", "http://box.local/v1"),
        ],
    )
    def test_what_it_does_not_know_is_unknown(self, provider, model, endpoint):
        assert Prices().find(provider, model, endpoint) is None

    def test_the_endpoint_says_who_is_paid(self):
        prices = Prices()
        via = prices.find("openai", "openai/gpt-4o", "https://openrouter.ai/api/v1")

        assert via.cost(MILLION) > 0
        assert prices.find("openai", "openai/gpt-4o", "") != via

    def test_a_gateway_nobody_knows_is_priced_as_the_provider(self):
        tariff = Prices().find("openai", "gpt-4o", "https://gateway.example.com/v1")

        assert tariff.cost(MILLION) == 12.5

    def test_a_lookup_is_remembered(self):
        prices = Prices()

        assert prices.find("openai", "gpt-4o") is prices.find("openai", "gpt-4o")

    def test_own_prices_win(self):
        own = Price(1.0, 2.0)

        assert Prices({"gpt-4o": own}).find("openai", "gpt-4o") is own
        assert Prices({"mine": Price(0.0, 0.0)}).find("x", "mine").cost(MILLION) == 0.0


def test_a_lookup_starts_no_thread_and_opens_no_connection():
    program = """
import socket, threading
def refuse(*_): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from agentdescent.core.reply import Tokens
from agentdescent.pricing import Prices
print(Prices().find("openai", "gpt-4o").cost(Tokens(1_000_000)), threading.active_count())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["2.5", "1"]


def test_the_list_is_not_loaded_before_it_is_needed():
    program = "import sys, agentdescent; print('genai_prices' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"


def test_a_local_endpoint_has_no_list_price_and_loads_no_list():
    program = (
        "import sys; from agentdescent.pricing import Prices; "
        "print(Prices().find('openai', 'gpt-4o', 'http://127.0.0.1:8071/v1'), "
        "'genai_prices' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert printed == "None False\n"
