"""What a bill comes to: `python main.py "3 x 1.25, 2 x 0.40"`."""

import sys

from parsing import items
from printing import amount

if __name__ == "__main__":
    print(amount(sum(count * cents for count, cents in items(sys.argv[1]))))
