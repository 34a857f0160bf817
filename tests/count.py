# SPDX-License-Identifier: GPL-2.0-only
"""Counts single tests in the log of a meson test run: prints passed, failed and skipped."""
import json
import re
import sys

passed = failed = skipped = 0
with open(sys.argv[1], encoding="utf-8") as log:
    for line in log:
        program = json.loads(line)
        results = re.findall(r"^(not ok|ok)\b(.*)$", program.get("stdout") or "", re.M)
        for result, rest in results:
            if re.search(r"# *skip", rest, re.I):
                skipped += 1
            elif result == "ok":
                passed += 1
            else:
                failed += 1
        if not results and re.search(r"^1\.\.0\b", program.get("stdout") or "", re.M):
            skipped += 1
        elif not results:
            # A program that ran no test has not passed anything.
            failed += 1
print(passed, failed, skipped)
