"""Hashes of passwords: argon2 in one thread, however many lanes a hash has.

The library's own verifier starts a thread for each lane, four by default: two passwords at a time would be eight
threads, and take as much from the event loop where CPUs are few. Lanes one after the other give the same hash.
"""

from __future__ import annotations

import base64
import binascii
import hmac

from argon2 import extract_parameters, low_level
from argon2.exceptions import InvalidHashError


def is_password_of(hashed: str, password: str) -> bool:
    """Whether this is its hash, in the format of argon2's reference (`$argon2id$v=19$m=65536,t=3,p=4$SALT$HASH`);
    InvalidHashError. Nothing but the time that it takes tells how wrong a password is, and that is the same."""
    parameters = extract_parameters(hashed)
    salt, wanted = (_bytes_of(part) for part in hashed.split("$")[-2:])
    secret = password.encode()
    found = low_level.ffi.new("uint8_t[]", parameters.hash_len)
    # The context does not keep these alive.
    given, salted = low_level.ffi.new("uint8_t[]", secret), low_level.ffi.new("uint8_t[]", salt)
    context = low_level.ffi.new(
        "argon2_context *",
        {
            "out": found,
            "outlen": parameters.hash_len,
            "pwd": given,
            "pwdlen": len(secret),
            "salt": salted,
            "saltlen": len(salt),
            "t_cost": parameters.time_cost,
            "m_cost": parameters.memory_cost,
            "lanes": parameters.parallelism,
            "threads": 1,
            "version": parameters.version,
        },
    )
    code = low_level.core(context, parameters.type.value)
    return code == 0 and hmac.compare_digest(bytes(low_level.ffi.buffer(found)), wanted)


def _bytes_of(text: str) -> bytes:
    """Of base64 without padding; InvalidHashError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidHashError from None
