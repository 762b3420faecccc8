"""A driver's version, such as 580.95.05."""

import re


def number(version):
    """A version as something to compare; None where the text is no version."""
    return [int(part) for part in version.split(".")] if re.fullmatch(r"[0-9]+(\.[0-9]+)*", version) else None
