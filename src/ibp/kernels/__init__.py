"""Compiled inner loops: arrays in, arrays out; those that belong together are in `records`.

Each function here computes what `ibp.model` states in NumPy, and is tested against it.
"""
