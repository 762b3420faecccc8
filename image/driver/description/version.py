"""A driver's version, such as 580.95.05."""

import re


def number(version):
    """A version in a form that can be compared; None if the text is not a version."""
    return [int(part) for part in version.split(".")] if re.fullmatch(r"[0-9]+(\.[0-9]+)*", version) else None
