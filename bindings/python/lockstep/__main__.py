"""The command: `lockstep` of the wheel's console script, and `python -m lockstep`."""

import os
import sys

from ._command import command


def main():
    path = command()
    os.execv(path, [path] + sys.argv[1:])


if __name__ == "__main__":
    main()
