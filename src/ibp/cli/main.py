"""Where ``ibp`` starts."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        print('The command line needs typer: pip install "ibp[cli]".', file=sys.stderr)
        sys.exit(2)
    try:
        from ibp.cli.app import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)


if __name__ == "__main__":
    main()
