"""`python -m broker.workers` is one worker, see `worker`. The supervisor starts it."""

import sys

from broker.hangup import HANGUPS

HANGUPS.heed()

from broker.workers.worker import main  # noqa: E402  # takes time

sys.exit(main())
