"""Where a fit starts: assignments and factors for the first sweep."""
