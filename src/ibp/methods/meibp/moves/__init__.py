"""Moves that add, split, merge, exchange and drop features, for when sweeps have come to rest."""
