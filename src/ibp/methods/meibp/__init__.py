"""MEIBP: hard assignments, a variational truncated Gaussian on the factors, a bound that rises."""
