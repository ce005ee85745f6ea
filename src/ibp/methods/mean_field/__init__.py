"""VIBP, finite and infinite: mean-field inference with Gaussian factors."""
