"""`python -m gpulayer` is the command line."""

from gpulayer.cli.main import main

if __name__ == "__main__":
    main()
