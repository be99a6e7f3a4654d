"""The logger of the package. No record has a token."""

import logging

log = logging.getLogger("abeyance")
