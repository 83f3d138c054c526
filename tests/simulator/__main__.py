"""``python -m tests.simulator --seeds 0-1000``."""

import sys

from tests.simulator.runner import main

if __name__ == "__main__":
    sys.exit(main())
