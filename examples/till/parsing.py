"""Reading bills."""


def items(bill):
    """(count, price in cents) of each item."""
    found = []
    for item in bill.split(","):
        count, price = item.split("x")
        found.append((int(count), int(float(price) * 100)))
    return found
