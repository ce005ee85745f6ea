"""``python -m ibp`` is ``ibp``."""

from ibp.cli.main import main

if __name__ == "__main__":
    main()
