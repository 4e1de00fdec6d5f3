"""`python -m broker.commands.workers` is one worker, see `worker`. The supervisor starts it."""

import sys

from broker.commands.hangup import outlive_hangups

outlive_hangups()

from broker.commands.workers.worker import main  # noqa: E402  # takes time

sys.exit(main())
