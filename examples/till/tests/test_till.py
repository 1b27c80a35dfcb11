import unittest

from parsing import items
from printing import amount


class TestTill(unittest.TestCase):
    def test_reads_counts_and_prices(self):
        assert items("2 x 1.50, 1 x 3.25") == [(2, 150), (1, 325)]

    def test_writes_dollars(self):
        assert amount(1234) == "12.34"
