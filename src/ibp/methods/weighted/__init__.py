"""MEIBP with weighted codes: how much of a feature a row has, where it has it."""
