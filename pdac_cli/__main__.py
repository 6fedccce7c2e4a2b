"""``python -m pdac_cli`` is ``pdac``."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C ends the loading too without a traceback."""
    try:
        from pdac_cli.cli import main as run
    except KeyboardInterrupt:
        print("error: interrupted; nothing was begun", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
