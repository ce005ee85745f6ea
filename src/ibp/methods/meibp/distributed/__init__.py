"""MEIBP where rows lie in chunks with workers: factors go out, sums come back, Z stays there."""
