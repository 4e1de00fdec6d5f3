"""How two brokers prove to each other that they know the cluster's secret, without saying it (D-46).

    dialler                                                     acceptor
       │── BROKER_INFO with its nonce (in the SETUP) ──────────────►│
       │◄────────────────────────────── BROKER_INFO with its nonce ─│
       │── BROKER_INFO with `dial_proof` ──────────────────────────►│
       │◄──────────────────────── BROKER_INFO with `accept_proof` ──│

Each proof covers both ids and both nonces, so that it is good for this link alone, and says which end made it, so that
nobody can answer with what he was asked. Knows no frames.
"""

import hmac
from hashlib import sha256

from rsocket_wire.wire.ids import ID_BYTES, check_id
from rsocket_wire.wire.ints import u64_bytes


def nonce(entropy: bytes, counter: int) -> bytes:
    """16 bytes that nobody can foretell who does not know `entropy`, another for each `counter` 0..2**64-1."""
    return sha256(b"nonce" + u64_bytes(counter) + entropy).digest()[:ID_BYTES]


def accept_proof(
    secret: bytes, acceptor_id: bytes, dialler_id: bytes, dialler_nonce: bytes, acceptor_nonce: bytes
) -> bytes:
    """What the broker that was dialled says: 32 bytes; BrokerError "bad-id" unless ids and nonces have 16 each."""
    return _signed(secret, b"accept", [acceptor_id, dialler_id, dialler_nonce, acceptor_nonce])


def dial_proof(
    secret: bytes, acceptor_id: bytes, dialler_id: bytes, dialler_nonce: bytes, acceptor_nonce: bytes
) -> bytes:
    """What the broker that dialled says then: as `accept_proof`, each end's things in the other's place."""
    return _signed(secret, b"dial", [dialler_id, acceptor_id, acceptor_nonce, dialler_nonce])


def _signed(secret: bytes, role: bytes, parts: list[bytes]) -> bytes:
    """HMAC-SHA256 of the role and the parts, which all have one length: no two lists look alike."""
    # Without a secret nobody links (`ClusterSettings.secret`); who asks all the same must not sign with nothing.
    assert secret
    for part in parts:
        check_id(part, "proof")
    return hmac.digest(secret, role + b"".join(parts), "sha256")
