import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent.core.contracts import check_reward
from agentdescent.core.task import Task
from agentdescent.rewards import (
    RewardContractError,
    contains,
    exact_match,
    last_number,
    multiple_choice,
    numeric_close,
    preflight,
    token_f1,
)

SCORERS = [
    exact_match(),
    exact_match(normalise=False),
    contains(),
    contains(whole_words=False, normalise=False),
    last_number(),
    numeric_close(),
    token_f1(),
    multiple_choice(),
]
TEXT_SCORERS = [exact_match(), exact_match(normalise=False), contains(), token_f1()]
NUMBER_SCORERS = [last_number(), numeric_close()]


def task(gold):
    return Task("t1", "question", {"gold": gold})


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("Paris", " 'PARIS!' ", 1.0),
        ("a b", "A   b", 1.0),
        ("", "", 0.0),
        ("...", "...", 0.0),
        ("None", None, 0.0),
        ([None], "none", 0.0),
        (["a", "b"], "a", 1.0),
        (["a", "b"], "['a', 'b']", 0.0),
        (("a", None, ""), "A.", 1.0),
        ({"a", "b"}, "b", 1.0),
        ([], "a", 0.0),
        (72, "72", 1.0),
        (True, "true", 1.0),
        ("U.S.", "u.s", 1.0),
        ("Paris,", "Paris", 1.0),
        ("x", "x;", 1.0),
        ("x", "**x**", 1.0),
        ("**x**", "_`x`_.", 1.0),
        ("x", "[x]", 1.0),
        ("x", '("x".)', 1.0),
        ("\u00e9t\u00e9", "e\u0301te\u0301", 1.0),
        ("Paris", "\u201cParis\u201d", 1.0),
        ("it's", "it\u2019s", 1.0),
        ("1-2", "1\u20132", 1.0),
        ("x", "\uff58\uff01", 1.0),
        ("3", "3.", 1.0),
        ("5", 5, 1.0),
        (".5", "5", 0.0),
        ("snake_case", "snakecase", 0.0),
        ("2*3", "23", 0.0),
        ("f(x)", "f(x", 0.0),
        ("(a) or (b)", "a) or (b", 0.0),
    ],
)
def test_exact_match(gold, output, reward):
    assert exact_match()(task(gold), output) == reward


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [("Paris", "Paris", 1.0), ("Paris", "paris", 0.0), ("Paris", "Paris ", 0.0), (" ", " ", 0.0)],
)
def test_exact_match_as_it_is(gold, output, reward):
    assert exact_match(normalise=False)(task(gold), output) == reward


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("Paris", "the answer is Paris.", 1.0),
        ("2", "12", 0.0),
        ("2", "2.5", 0.0),
        ("2", "1,2", 0.0),
        ("2", "I count 2.", 1.0),
        ("2", "(2)", 1.0),
        ("art", "party", 0.0),
        ("art", "An art.", 1.0),
        ("art", "4.art", 1.0),
        ("C++", "Use C++17", 1.0),
        ("$5", "US$5", 1.0),
        ("", "anything", 0.0),
        ("...", "anything...", 0.0),
        ("A B", "a\n b", 1.0),
        ("the answer", "so **the** answer", 1.0),
        ("x", None, 0.0),
        (["Rome", "Paris"], "It is Paris", 1.0),
        ("\u5df4\u9ece", "\u7b54\u6848\u662f\u5df4\u9ece\u3002", 1.0),
        ("2", "\u7b2c2\u7ae0", 1.0),
    ],
)
def test_contains(gold, output, reward):
    assert contains()(task(gold), output) == reward


def test_contains_can_look_inside_words():
    assert contains(whole_words=False)(task("2"), "12") == 1.0


def test_contains_as_it_is():
    scorer = contains(normalise=False)

    assert scorer(task("Paris"), "in Paris!") == 1.0
    assert scorer(task("Paris"), "in paris!") == 0.0


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("#### 72", "The answer is 72.", 1.0),
        ("1234", "$1,234.00", 1.0),
        ("-5", "minus -5", 1.0),
        ("5", "10-5", 1.0),
        ("-5", "10-5", 0.0),
        ("-2", "2024-01-02", 0.0),
        ("0.5", ".5", 1.0),
        (".5", "5", 0.0),
        ("0.5", "1/2", 1.0),
        ("1e3", "1000", 1.0),
        ("10%", "0.10", 1.0),
        ("12.3%", "0.123", 1.0),
        ("72", "72%", 1.0),
        ("10%", "10%", 1.0),
        ("10%", "1000%", 0.0),
        ("72", "Step 1: 72\nStep 2: done.", 0.0),
        ("72", "Step 1: 72\nStep 2: done.\n#### 72", 1.0),
        ("1,2", "12", 0.0),
        ("1000", "1 000", 1.0),
        ("5", "", 0.0),
        ("5", None, 0.0),
        ("", "", 0.0),
        (5, 5.0, 1.0),
        ([5, "6 pens"], "6", 1.0),
        (10**9, "1000000001", 0.0),
        ("0", "-0.0", 1.0),
    ],
)
def test_last_number(gold, output, reward):
    assert last_number()(task(gold), output) == reward


@pytest.mark.parametrize(
    ("scorer", "gold", "output", "reward"),
    [
        (last_number(tolerance=0.01), "100", "101", 1.0),
        (last_number(tolerance=0.01), "100", "101.1", 0.0),
        (last_number(tolerance=0.01), "-100", "-99", 1.0),
        (last_number(tolerance=0.01), "0.1", "0.101", 1.0),
        (last_number(tolerance=0.01), "0.001", "0.01", 0.0),
        (last_number(tolerance=0.01), "0", "0.001", 0.0),
        (last_number(abs_tol=0.5), "0", "0.5", 1.0),
        (last_number(abs_tol=0.5), "100", "100.6", 0.0),
        (numeric_close(), "100", "100.9", 1.0),
        (numeric_close(), "100", "102", 0.0),
        (numeric_close(abs_tol=3), "100", "102", 1.0),
    ],
)
def test_numbers_within_a_tolerance(scorer, gold, output, reward):
    assert scorer(task(gold), output) == reward


@pytest.mark.parametrize("argument", ["tolerance", "abs_tol"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_senseless_tolerance_is_refused(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be at least 0, got {value!r}"):
        last_number(**{argument: value})


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("the cat sat", "A cat sat.", 1.0),
        ("cat sat", "the cat ran", 0.5),
        ("cat cat", "cat", 2 / 3),
        ("cat", "dog", 0.0),
        ("The The", "the", 2 / 3),
        ("", "", 0.0),
        (["dog", "cat sat"], "cat", 2 / 3),
        ("\u5df4\u9ece", "\u5df4\u58eb", 0.5),
    ],
)
def test_token_f1(gold, output, reward):
    assert token_f1()(task(gold), output) == reward


@pytest.mark.parametrize(
    ("gold", "output", "reward"),
    [
        ("B", "B", 1.0),
        ("b", "(b).", 1.0),
        ("B) Paris", "**B**", 1.0),
        ("B", "The answer is B, not A.", 1.0),
        ("B", "Answer: (B)", 1.0),
        ("B", "A) Rome\nB) Paris\n**Answer:** B", 1.0),
        ("B", "answer: A\nNo. Answer: B", 1.0),
        ("B", r"so $\boxed{B}$ and not C", 1.0),
        ("B", r"\boxed{\text{B}}", 1.0),
        ("B", "A dog barks, hence B)", 1.0),
        ("B", "A) or B)", 0.0),
        ("B", "It must be B.", 1.0),
        ("B", "Either A or B.", 0.0),
        ("A", "the answer is a dog", 0.0),
        ("A", "Alice", 0.0),
        ("F", "", 0.0),
        (["A", "B"], "B", 1.0),
    ],
)
def test_multiple_choice(gold, output, reward):
    assert multiple_choice(choices="ABCDEF")(task(gold), output) == reward


@pytest.mark.parametrize("choices", ["", "abc", "A1"])
def test_choices_are_capital_letters(choices):
    with pytest.raises(ValueError, match="choices must be capital letters"):
        multiple_choice(choices=choices)


@pytest.mark.parametrize("scorer", SCORERS, ids=repr)
@pytest.mark.parametrize("meta", [{}, {"gold": None}, {"answer": "5"}])
def test_a_missing_gold_is_a_contract_error_that_names_task_and_key(scorer, meta):
    judged = Task("t1", "question", meta)

    for act in (scorer.check, lambda it: scorer(it, "5")):
        with pytest.raises(
            RewardContractError, match=r"task 't1': its meta\['gold'\] is missing.*gold_key="
        ):
            act(judged)


@pytest.mark.parametrize("scorer", SCORERS, ids=repr)
@pytest.mark.parametrize("gold", ["", " ", [], ["", None]])
def test_an_empty_gold_never_scores_and_does_not_pass_the_check(scorer, gold):
    assert scorer(task(gold), "") == scorer(task(gold), "5") == 0.0
    with pytest.raises(RewardContractError, match=r"task 't1': its meta\['gold'\] is empty"):
        scorer.check(task(gold))


@pytest.mark.parametrize("scorer", NUMBER_SCORERS, ids=repr)
@pytest.mark.parametrize("gold", ["Paris", ["5", "Paris"], True])
def test_a_gold_without_a_number_is_a_contract_error(scorer, gold):
    for act in (scorer.check, lambda it: scorer(it, "5")):
        with pytest.raises(RewardContractError, match=r"task 't1'.*which holds no number"):
            act(task(gold))


def test_a_gold_that_is_no_choice_is_a_contract_error():
    with pytest.raises(RewardContractError, match=r"'Paris', which names none of the choices"):
        multiple_choice().check(task("Paris"))


def test_a_long_gold_is_cut_in_the_message():
    with pytest.raises(RewardContractError, match=r"is 'x{80}', which"):
        last_number().check(task("x" * 5_000))


@pytest.mark.parametrize("scorer", SCORERS, ids=repr)
def test_a_sound_task_passes_the_check(scorer):
    gold = "B" if scorer == multiple_choice() else "5"

    assert scorer.check(task(gold)) is None


def test_the_gold_may_stand_under_another_key():
    scorer = exact_match("answer")

    assert scorer(Task("1", "", {"answer": "a"}), "a") == 1.0
    with pytest.raises(RewardContractError, match=r"meta\['answer'\] is missing.*\['gold'\]"):
        scorer(task("a"), "a")


def test_a_scorer_shows_how_to_make_it():
    assert repr(contains("a")) == "contains(gold_key='a', whole_words=True, normalise=True)"
    assert repr(numeric_close()) == "last_number(gold_key='gold', tolerance=0.01, abs_tol=0.0)"


def test_scorers_are_told_apart_by_their_identity():
    assert exact_match().identity == (
        "agentdescent.rewards/1:exact_match(gold_key='gold', normalise=True)"
    )
    assert len({scorer.identity for scorer in SCORERS}) == len(SCORERS)


@pytest.mark.parametrize("scorer", SCORERS, ids=repr)
def test_scorers_are_pure_values(scorer):
    assert scorer.is_pure is True
    assert pickle.loads(pickle.dumps(scorer)) == scorer


class TestPreflight:
    def test_every_task_is_checked(self):
        preflight(exact_match(), [task("a"), task("b")])

        with pytest.raises(RewardContractError, match="task 't1'"):
            preflight(exact_match(), [task("a"), task("")])

    def test_a_reward_without_a_check_is_let_through(self):
        assert preflight(lambda task, output: 1.0, [task("")]) is None

    def test_whatever_a_check_raises_names_the_task(self):
        class Reward:
            def __call__(self, task, output):
                return 1.0

            def check(self, task):
                return task.meta["rubric"]

        with pytest.raises(
            RewardContractError, match=r"reward\.check refused task 't1': KeyError: 'rubric'"
        ) as caught:
            preflight(Reward(), [task("a")])
        assert isinstance(caught.value.__cause__, KeyError)


answers = st.text() | st.text("aB1. ,-*_()'\"%/") | st.integers() | st.floats(allow_nan=False)
golds = answers | st.lists(answers, max_size=3)


@given(st.sampled_from(SCORERS), golds, answers | st.none())
def test_every_reward_is_a_number_from_0_to_1(scorer, gold, output):
    try:
        reward = scorer(task(gold), output)
    except RewardContractError:
        return
    assert isinstance(reward, float)
    assert check_reward(task(gold), reward) == reward


@given(st.sampled_from(SCORERS), answers)
def test_a_gold_that_passes_the_check_matches_itself(scorer, gold):
    try:
        scorer.check(task(gold))
    except RewardContractError:
        return
    assert scorer(task(gold), gold) == 1.0


@given(st.sampled_from(TEXT_SCORERS[:2] + TEXT_SCORERS[3:]), answers, answers)
def test_text_comparison_is_symmetric(scorer, left, right):
    assert scorer(task(left), right) == scorer(task(right), left)


@given(st.sampled_from(TEXT_SCORERS), st.lists(answers, min_size=1, max_size=4), answers)
def test_any_of_several_golds_will_do(scorer, several, output):
    best = max(scorer(task(gold), output) for gold in several)

    assert scorer(task(several), output) == best
