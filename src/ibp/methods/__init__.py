"""Inference methods: one file each, `init` and `step` on a state. `ibp.loop` does the rest."""
