"""`python -m heaptape`, for those who have no launcher."""

import sys

from heaptape.cli.main import main
from heaptape.common.home import default_home

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], default_home()))
