"""`python -m owpc_ltr` is `owpc-ltr`."""

from owpc_ltr.cli import main

if __name__ == "__main__":
    main()
