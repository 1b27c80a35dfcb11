"""Writing amounts."""


def amount(cents):
    """Cents as dollars."""
    return f"{cents // 100}.{cents % 100}"
