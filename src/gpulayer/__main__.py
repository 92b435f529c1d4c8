"""`python -m gpulayer` is the command line."""

from gpulayer.cli.entry import main

if __name__ == "__main__":
    main()
