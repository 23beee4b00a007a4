"""``python -m canishard`` is ``canishard``."""

import sys

from canishard.cli import main

if __name__ == "__main__":
    sys.exit(main())
