#!/usr/bin/env python3
"""said.py REPORT ID: one line with the result of a test in a report: its outcome, then each finding's code and message.

The line begins with `none` if the report has no such test, or there is no report."""

import json
import sys


def summary(path, wanted):
    try:
        with open(path) as file:
            tests = json.load(file)["tests"]
    except (OSError, ValueError, KeyError) as error:
        return f"none: {error!r}"
    for test in tests:
        if test["id"] == wanted:
            findings = [" ".join([f["code"], f["message"], *f["evidence"]]) for f in test["findings"]]
            return " ".join(" | ".join([f"{test['outcome']}: {test['summary']}", *findings]).split())
    return "none: the test did not run"


if __name__ == "__main__":
    print(summary(*sys.argv[1:3]))
