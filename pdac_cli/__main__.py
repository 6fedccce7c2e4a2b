"""``python -m pdac_cli`` is ``pdac``."""

from pdac_cli.cli import main

if __name__ == "__main__":
    main()
