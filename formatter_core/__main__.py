"""`python -m formatter_core`: the command line."""

import sys

from formatter_command.main import main

if __name__ == "__main__":
    sys.exit(main())
