"""Proofs between brokers: what they are made of, and that none is good for anything else."""

import pytest

from broker.cluster.links.proof import accept_proof, dial_proof, nonce
from rsocket_wire.errors import BrokerError

SECRET = b"correct horse"
ACCEPTOR, DIALLER = b"A" * 16, b"D" * 16
DIALLED_WITH, ACCEPTED_WITH = b"d" * 16, b"a" * 16


def test_a_proof_is_good_for_one_secret_one_pair_one_end_and_one_time() -> None:
    made = [
        accept_proof(SECRET, ACCEPTOR, DIALLER, DIALLED_WITH, ACCEPTED_WITH),
        accept_proof(b"other", ACCEPTOR, DIALLER, DIALLED_WITH, ACCEPTED_WITH),
        accept_proof(SECRET, DIALLER, ACCEPTOR, DIALLED_WITH, ACCEPTED_WITH),
        accept_proof(SECRET, ACCEPTOR, DIALLER, ACCEPTED_WITH, DIALLED_WITH),
        accept_proof(SECRET, ACCEPTOR, DIALLER, b"x" * 16, ACCEPTED_WITH),
        accept_proof(SECRET, ACCEPTOR, DIALLER, DIALLED_WITH, b"x" * 16),
        dial_proof(SECRET, ACCEPTOR, DIALLER, DIALLED_WITH, ACCEPTED_WITH),
        dial_proof(SECRET, DIALLER, ACCEPTOR, ACCEPTED_WITH, DIALLED_WITH),
    ]
    assert len(set(made)) == len(made)


def test_ids_and_nonces_of_another_length_are_refused() -> None:
    """Otherwise bytes could move from one to the next, and a proof would be good for another pair."""
    for wrong in (b"", b"x" * 15, b"x" * 17):
        parts = [ACCEPTOR, DIALLER, DIALLED_WITH, ACCEPTED_WITH]
        for place in range(4):
            four = [*parts[:place], wrong, *parts[place + 1 :]]
            for made in (accept_proof, dial_proof):
                with pytest.raises(BrokerError, match=f"bad-id: proof: has {len(wrong)} bytes"):
                    made(SECRET, four[0], four[1], four[2], four[3])


def test_nothing_is_signed_without_a_secret() -> None:
    with pytest.raises(AssertionError):
        accept_proof(b"", ACCEPTOR, DIALLER, DIALLED_WITH, ACCEPTED_WITH)


def test_nonces_are_new_for_each_counter_and_each_entropy() -> None:
    made = [nonce(entropy, counter) for entropy in (b"", b"one", b"two") for counter in range(100)]
    assert {len(each) for each in made} == {16}
    assert len(set(made)) == len(made)
    assert nonce(b"one", 7) == nonce(b"one", 7)
