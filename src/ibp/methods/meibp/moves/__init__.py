"""Moves that add, split, merge, exchange and drop features: where a sweep over the rows ends, these go on."""
