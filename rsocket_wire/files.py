"""Files that somebody names and that cannot be used: what the system says of it, in the words of all our texts."""


def system_reason(error: OSError) -> str:
    """`no such file or directory`: without the number, and the path, which stands beside it."""
    return (error.strerror or str(error)).lower()
