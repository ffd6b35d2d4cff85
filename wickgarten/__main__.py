"""`python -m wickgarten` is the command `wickgarten`."""

from derivations.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
