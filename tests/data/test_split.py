"""Splits: exact where they are pinned, lawful everywhere."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentdescent import Task
from agentdescent.core.task import split_held_out
from agentdescent.data.split import sizes
from agentdescent.dataloader import Dataset, dataset_from_splits, split_dataset

RATIOS = [(0.6, 0.2, 0.2), (0.5, 0.25, 0.25), (0.8, 0.1, 0.1), (0.7, 0.3, 0.0), (0, 0.5, 0.5)]
ratios = st.sampled_from(RATIOS)


def parts(dataset):
    return dataset.train, dataset.val, dataset.test


def lengths(dataset):
    return tuple(map(len, parts(dataset)))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, (0, 0, 0)),
        (1, (1, 0, 0)),
        (2, (1, 0, 1)),
        (3, (1, 1, 1)),
        (4, (2, 1, 1)),
        (5, (3, 1, 1)),
        (6, (4, 1, 1)),
        (7, (4, 1, 2)),
        (10, (6, 2, 2)),
        (29, (17, 6, 6)),
    ],
)
def test_sizes_are_rounded_by_largest_remainder_and_no_part_is_empty_without_need(n, expected):
    assert lengths(split_dataset(range(n), shuffle=False)) == expected


def test_the_default_shuffle_is_pinned():
    dataset = split_dataset(range(10), name="ten")

    assert parts(dataset) == ([7, 8, 1, 5, 3, 4], [2, 0], [9, 6])
    assert dataset.name == "ten"


def test_without_shuffle_the_order_stays():
    assert parts(split_dataset(range(5), shuffle=False)) == ([0, 1, 2], [3], [4])


@pytest.mark.parametrize(("n", "expected"), [(1, (0, 1, 0)), (2, (1, 1, 0)), (3, (1, 1, 1))])
def test_val_has_one_of_every_stratum_before_the_other_parts(n, expected):
    assert lengths(split_dataset(range(n), stratify_key=lambda _: "all")) == expected


def test_each_part_has_its_share_of_every_stratum():
    dataset = split_dataset(range(60), stratify_key=lambda item: item % 3)

    assert [Counter(item % 3 for item in part) for part in parts(dataset)] == [
        {0: 12, 1: 12, 2: 12},
        {0: 4, 1: 4, 2: 4},
        {0: 4, 1: 4, 2: 4},
    ]
    assert dataset.train != sorted(dataset.train, key=lambda item: item % 3)


def test_strata_without_shuffle_keep_the_order():
    dataset = split_dataset(range(10), stratify_key=lambda item: item % 2, shuffle=False)

    assert parts(dataset) == ([0, 1, 2, 3, 4, 5], [6, 7], [8, 9])


def test_a_group_counts_to_the_stratum_of_its_first_item():
    rows = [(group, stratum) for stratum in "ab" for group in range(5) for _ in range(2)]

    dataset = split_dataset(rows, stratify_key=lambda row: row[1], group_key=lambda row: row)

    assert lengths(dataset) == (12, 4, 4)
    assert [Counter(stratum for _, stratum in part) for part in parts(dataset)] == [
        {"a": 6, "b": 6},
        {"a": 2, "b": 2},
        {"a": 2, "b": 2},
    ]


@given(
    st.lists(st.integers(0, 6), max_size=40),
    ratios,
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
)
def test_no_item_is_lost_or_in_two_parts_and_no_part_is_empty_without_need(
    items, shares, shuffle, is_stratified, seed
):
    options = {
        "ratios": shares,
        "shuffle": shuffle,
        "seed": seed,
        "stratify_key": (lambda item: item // 3) if is_stratified else None,
    }

    dataset = split_dataset(items, **options)

    assert Counter(dataset.train + dataset.val + dataset.test) == Counter(items)
    assert not set(dataset.train) & set(dataset.val)
    assert not set(dataset.trainval) & set(dataset.test)
    filled = [part for part, share in zip(parts(dataset), shares, strict=True) if share and part]
    assert len(filled) == min(len(set(items)), sum(share > 0 for share in shares))
    assert all(share or not part for part, share in zip(parts(dataset), shares, strict=True))
    assert dataset == split_dataset(items, **options)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers()), max_size=40, unique=True), ratios)
def test_groups_stay_together(items, shares):
    dataset = split_dataset(items, ratios=shares, group_key=lambda item: item[0])

    groups = [{group for group, _ in part} for part in parts(dataset)]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert sum(map(bool, groups)) == min(
        len(set().union(*groups)), sum(share > 0 for share in shares)
    )


def test_groups_come_as_near_to_the_ratios_as_they_can():
    items = [(group, item) for group in range(10) for item in range(6)]

    dataset = split_dataset(items, group_key=lambda item: item[0])

    assert lengths(dataset) == (36, 12, 12)


@pytest.mark.parametrize(
    "items",
    [
        [{"q": ["a", {"b": 1}]}] * 5 + [{"q": ["a", {"b": 2}]}],
        [Task(str(index), "p", {"gold": [1]}) for index in range(5)] + [Task("5", "p")],
    ],
)
def test_items_with_equal_content_share_a_part(items):
    dataset = split_dataset(items, ratios=(0.5, 0.5, 0))

    assert sorted(lengths(dataset)) == [0, 1, 5]


def test_items_that_cannot_be_compared_are_each_their_own():
    dataset = split_dataset([bytearray(b"same") for _ in range(10)])

    assert lengths(dataset) == (6, 2, 2)


def test_keys_may_be_of_any_kind():
    items = [{"tags": ["x", index % 2]} for index in range(20)]

    dataset = split_dataset(
        [{**item, "n": n} for n, item in enumerate(items)],
        group_key=lambda item: item["n"] // 2,
        stratify_key=lambda item: item["tags"],
    )

    assert lengths(dataset) == (12, 4, 4)


@given(st.lists(st.integers(), min_size=30, unique=True), st.lists(st.integers()), st.integers())
def test_hashed_items_stay_where_they_are_when_others_come(items, more, seed):
    before, after = (
        {
            item: place
            for place, part in enumerate(parts(split_dataset(some, hash_key=str, seed=seed)))
            for item in part
        }
        for some in (items, [*more, *items])
    )

    assert {item: after[item] for item in items} == before


def test_hashed_sizes_are_near_the_ratios():
    assert lengths(split_dataset(range(1000), hash_key=str)) == (615, 186, 199)


@pytest.mark.filterwarnings("ignore:hash_key left")
def test_items_with_one_hash_key_share_a_part():
    assert sorted(lengths(split_dataset(range(9), hash_key=lambda _: "same"))) == [0, 0, 9]


def test_a_hash_that_leaves_a_part_empty_is_warned_of():
    with pytest.warns(RuntimeWarning, match=r"hash_key left (train|val|test) and \w+ empty: 1 it"):
        split_dataset(["a"], hash_key=str)
    assert lengths(split_dataset([], hash_key=str)) == (0, 0, 0)


@pytest.mark.parametrize("key", ["stratify_key", "group_key"])
def test_a_hash_is_not_combined_with_other_keys(key):
    with pytest.raises(ValueError, match="let hash_key return the group"):
        split_dataset(range(9), hash_key=str, **{key: str})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((0.8, 0.5, 0.5), r"ratios must sum to 1, but \(0.8, 0.5, 0.5\) sum to 1.8"),
        ((0.5, 0.5), "three finite numbers"),
        ((1.2, -0.2, 0.0), "from 0 on"),
        ((float("nan"), 0.5, 0.5), "finite"),
        ((0, 0, 0), "sum to 0"),
    ],
)
def test_ratios_that_are_no_shares_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        split_dataset(range(10), ratios=wrong)


def test_thirds_are_near_enough_to_one():
    assert lengths(split_dataset(range(9), ratios=(1 / 3, 1 / 3, 1 / 3))) == (3, 3, 3)


@given(st.integers(0, 500), ratios)
def test_rounding_keeps_the_sum_and_is_within_one_of_the_exact_share(n, shares):
    exact = [n * Fraction(str(share)) for share in shares]

    rounded = sizes(n, [Fraction(str(share)) for share in shares])

    assert sum(rounded) == n
    assert all(abs(size - share) < 1 for size, share in zip(rounded, exact, strict=True))


@pytest.mark.parametrize("total", [4, 29, 87, 100, 149, 200])
def test_the_engine_holds_out_exactly_val(total):
    tasks = [Task(str(index), "p") for index in range(total)]
    for n_val in range(1, total):
        dataset = Dataset(tasks[n_val:], tasks[:n_val])

        assert split_held_out(dataset.trainval, dataset.val_frac) == (dataset.train, dataset.val)


def test_a_dataset_knows_its_sizes():
    dataset = Dataset([1, 2, 3], [4], [5, 6], "six")

    assert len(dataset) == 6
    assert dataset.sizes() == {"train": 3, "val": 1, "test": 2}
    assert dataset.val_frac == 0.25
    assert Dataset().val_frac == 0.0
    assert dataset.map(str) == Dataset(["1", "2", "3"], ["4"], ["5", "6"], "six")


def test_given_splits_are_kept_as_they_are():
    assert dataset_from_splits(iter("ab"), "c", name="n") == Dataset(["a", "b"], ["c"], [], "n")


def test_given_splits_that_share_an_item_are_warned_of():
    with pytest.warns(RuntimeWarning, match="1 items are in two parts, the first in train and tes"):
        dataset_from_splits(["a", "b", "b"], ["c"], ["b"])
