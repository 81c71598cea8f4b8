"""`python -m agenttrace`: the same as the command `agenttrace`."""

from agenttrace.cli.main import main

if __name__ == "__main__":
    main()
