"""The nouns: plain values and the protocols of every plug-in. No I/O, no event loop."""
