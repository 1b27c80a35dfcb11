import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.policy.rewards_numbers import Number, read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72.0),
        ("+5", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("the answer is...5", 5.0),
        ("1.2.3", 1.2),
        ("\uff15", 5.0),
    ],
)
def test_plain_numbers(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234,567.89", 1234567.89),
        ("1 000", 1000.0),
        ("1\u00a0000", 1000.0),
        ("1\u202f000", 1000.0),
        ("12 345 678", 12345678.0),
        ("1'000", 1000.0),
        ("1\u2019000", 1000.0),
        ("1_000", 1000.0),
        ("1,2", 2.0),
        ("1, 000", 0.0),
        ("0.5 100", 100.0),
        ("in 2020 300 pens", 300.0),
        ("1,2345", 2345.0),
    ],
)
def test_groups_of_thousands(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5.0),
        ("minus -5", -5.0),
        ("(-5)", -5.0),
        ("x=-5", -5.0),
        ("**-5**", -5.0),
        ("\u22125", -5.0),
        ("\u20135", -5.0),
        ("7 -5", -5.0),
        ("7 - 5", 5.0),
        ("10-5", 5.0),
        ("5\u201310", 10.0),
        ("page-5", 5.0),
        ("(3)-5", 5.0),
        ("10%-5", 5.0),
        ("2024-01-02", 2.0),
        ("well--5", 5.0),
    ],
)
def test_a_minus_stands_before_a_number_and_after_none(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$1,234.00", 1234.0),
        ("-$5", -5.0),
        ("$-5", -5.0),
        ("US$5", 5.0),
        ("$.50", 0.5),
        ("\u20ac3", 3.0),
        ("5kg", 5.0),
        ("3 EUR", 3.0),
        ("\u7b54\u6848\u662f72\u4e2a", 72.0),
    ],
)
def test_currencies_and_units(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("3E+2 m", 300.0),
        ("2e5x", 2.0),
        ("1.5 x 10^3", 1500.0),
        ("1.5 \u00d7 10^{-3}", 0.0015),
        (r"1.5 \times 10^3", 1500.0),
        ("10^6", 1000000.0),
        ("10\u00b3", 1000.0),
        ("4\u00d710\u207b\u00b2", 0.04),
    ],
)
def test_powers_of_ten(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/2", 0.5),
        ("1 / 2", 0.5),
        ("1\u20442", 0.5),
        ("-3/4", -0.75),
        ("1 1/2", 1.5),
        ("-1 1/2", -1.5),
        ("5 10/2", 5.0),
        ("\u00bd", 0.5),
        ("5\u00bd", 5.5),
        ("-\u2153", -1 / 3),
        (r"\frac{1}{2}", 0.5),
        (r"-\dfrac{1}{2}", -0.5),
        (r"3\frac{1}{2}", 3.5),
        ("1/2/2024", 2024.0),
        ("1/2.5", 2.5),
        ("5/0", 0.0),
    ],
)
def test_fractions(text, value):
    assert read_number(text) == Number(value)


@pytest.mark.parametrize("text", ["10%", "10 %", r"10\%", "10 percent", "10 per cent", "10\uff05"])
def test_percentages(text):
    assert read_number(text) == Number(10.0, percent=True)


def test_percentages_are_compared_as_they_are_meant():
    ten, tenth, ten_percent = Number(10.0), Number(0.1), Number(10.0, percent=True)

    assert ten_percent.ratio == tenth.ratio == 0.1
    assert ten_percent.close_to(ten, 0.0, 0.0)
    assert ten_percent.close_to(tenth, 0.0, 0.0)
    assert tenth.close_to(ten_percent, 0.0, 0.0)
    assert not ten.close_to(tenth, 0.0, 0.0)
    assert not Number(1000.0, percent=True).close_to(ten_percent, 0.0, 0.0)


@pytest.mark.parametrize(
    "text", ["", "Paris", "H2O", "item_5", "x^2", "v2.0", "m\u00b2", "1e999", "9" * 400]
)
def test_what_is_no_number(text):
    assert read_number(text) is None


def test_a_number_that_is_none_hides_no_other():
    assert read_number("5 tons of CO2 per m\u00b2") == Number(5.0)


@pytest.mark.parametrize(
    "text",
    [
        "#### 72\n\nin 3 steps",
        "#### **72**\n3",
        "#### $72.\n3",
        "Answer: 72\n(3 steps)",
        "**Answer:** 72\n3",
        "**Final answer**: 72\n3",
        "The answer is: 72\n3",
        "Answer:\n\n72\n3",
        "Answer: 48 + 24 = 72\nchecked 3 times",
        "answer\uff1a72\n3",
        r"\boxed{72}. I used 3 boxes.",
        r"\boxed{72\text{ pens}}, 3 boxes",
        r"\boxed{\frac{144}{2}} 3",
        "Answer: 5\nWait.\nAnswer: 72\n3",
        "#### 72\nAnswer: that of above",
        "#### Step 3\nso 72",
        "#### 3. Add\nso 72",
        "Answer: none yet.\n3, no, 72",
        r"\boxed{\sqrt{x}} 72",
    ],
)
def test_a_declared_answer_comes_before_the_last_number(text):
    assert read_number(text) == Number(72.0)


def test_tex_groups_thousands_too():
    assert read_number(r"\boxed{1{,}000}") == read_number(r"1\,000") == Number(1000.0)


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "= {!r}.", "{}%"])
)
def test_every_float_is_read_back(value, form):
    assert read_number(form.format(value)) == Number(value, percent="%" in form)


@given(st.integers(-(10**12), 10**12), st.sampled_from([",", "_", " ", "'"]))
def test_every_grouped_integer_is_read_back(value, gap):
    assert read_number(f"{value:,}".replace(",", gap)) == Number(float(value))


@given(st.text() | st.text("0123456789.,/-+eE%$^ x_'{}\\boxed#Answer:\n"))
def test_any_text_can_be_read(text):
    number = read_number(text)

    assert number is None or number.value == number.value


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1,000,",
        "1 ",
        "1/",
        "1/1 ",
        "-",
        "$",
        "\\boxed{",
        "\\frac{",
        "#### ",
        "answer ",
        "answer:\n",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(unit):
    started = time.perf_counter()
    read_number(unit * 20_000)

    assert time.perf_counter() - started < 2.0
