"""Compiled inner loops on plain arrays; arrays that belong together are in `records`.

Each function here computes what `ibp.model` states in NumPy, and is tested against it. Those that
draw take the generator of the fit as an argument.
"""
