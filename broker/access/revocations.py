"""Revocations: credentials of a principal that hold no longer, by the moment before which they were issued.

A token says itself when it was issued; other credentials count from when their connection was made, so that who has
them may come again, unless the moment is still to come (D-99). Decides by texts and numbers; where they come from, the
configured file and operators of the whole cluster, others know.
"""

from typing import Final

from broker.access.certificates import RevokedCertificates

MAX_REVOCATIONS: Final = 10_000  # principals of each source; whole providers are taken out of `jwt.issuer` instead


class Revocations:
    """All of them: by principal, milliseconds since the epoch."""

    def __init__(self) -> None:
        self.of_file: dict[str, int] = {}  # bounded by MAX_REVOCATIONS, as the next
        self.told: Final[dict[str, int]] = {}  # by operators
        self.certificates = RevokedCertificates()  # by their authorities, whoever they are of

    def before_ms(self, principal: str) -> int:
        """Its credentials issued before that moment hold no longer; 0: all hold."""
        return max(self.of_file.get(principal, 0), self.told.get(principal, 0))

    def covers(self, principal: str, issued_at_ms: int) -> bool:
        """Credentials of this principal that were issued then hold no longer. 0: nobody knows when that was."""
        return issued_at_ms < self.before_ms(principal)
