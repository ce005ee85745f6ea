"""The uncollapsed Gibbs sampler, of assignments and factors."""
