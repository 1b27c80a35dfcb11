"""Fakes and instruments for tests of code that uses this package."""
