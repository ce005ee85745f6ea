"""Compiled inner loops: plain arrays in, plain arrays out, no random numbers drawn inside.

Each function here computes what `ibp.model` states in NumPy, and is tested against it.
"""
