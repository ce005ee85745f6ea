"""Inference methods, a file or folder each: they make a state and improve it sweep by sweep."""
