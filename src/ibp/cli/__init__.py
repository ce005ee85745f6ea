"""The command line, ``ibp``: one module per command."""
