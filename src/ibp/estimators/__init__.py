"""scikit-learn estimators: validate, delegate to a method and the loop, keep the result."""
