"""``python -m ibp`` is ``ibp``."""

try:
    from ibp.cli.main import main
except KeyboardInterrupt:  # before anything has begun
    raise SystemExit(130) from None

if __name__ == "__main__":
    main()
