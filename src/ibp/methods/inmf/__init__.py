"""INMF: power expectation propagation, with features added one at a time."""
