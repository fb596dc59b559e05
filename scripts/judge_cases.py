"""Judge the output of the conformance suite against the cases still pending.

    judge_cases.py OUTPUT PENDING

PENDING has a case a line, with the reason behind a #. A case that fails and
is not pending has failed; so has a suite that did not run to its end. Prints
one line for each surprise, then "N passed, N failed" and status 1 on failure.
"""

import pathlib
import re
import sys


def pending(path):
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.split("#")[0].strip() for line in lines)
    return {name for name in names if name}


def main(output, list_of_pending):
    text = pathlib.Path(output).read_text()
    outcomes = {name: word for word, name in re.findall(
        r"^(PASS|FAIL|SKIP) ([^:\s]+)", text, re.MULTILINE)}
    waiting = pending(pathlib.Path(list_of_pending))
    passed = [n for n, word in outcomes.items() if word == "PASS"]
    lost = [n for n, word in outcomes.items()
            if word == "FAIL" and n not in waiting]
    if not re.search(r"^\d+ passed, \d+ failed", text, re.MULTILINE):
        lost.append("the suite did not run to its end")
    for name in passed:
        if name in waiting:
            print(f"passes, although pending: {name}")
    for name in lost:
        print(f"should pass: {name}")
    still = sum(1 for n, word in outcomes.items()
                if word == "FAIL" and n in waiting)
    print(f"of {len(outcomes)} cases, pending and not counted: {still}")
    print(f"{len(passed)} passed, {len(lost)} failed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
