__version__ = "0.1.0"
WIRE = 1  # of the messages between client, plane and worker


def ordered(version: str) -> tuple[int, ...]:
    """For comparing versions. Words in one count as nothing."""
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdigit())
