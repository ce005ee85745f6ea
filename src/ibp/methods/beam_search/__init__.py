"""Beam search for the most probable assignments."""
