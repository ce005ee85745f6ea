"""When too many digits cancel for a sum to be had by subtraction."""

# If taking away what is missing leaves less than this of a diagonal entry, what is observed is
# summed instead.
LEAST_LEFT = 1e-4
