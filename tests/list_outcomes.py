#!/usr/bin/env python3
"""What ctest says last: every test that was skipped, with its reason, and every one that failed, with the first lines of
what it said: ctest's own list names programs only. Arguments: the build folder.

Reads ctest's log of the run that is ending (ctest keeps it as LastTest.log.tmp until then). Reasons that match a line of
expected_skips.txt are expected; with TRIREME_FAIL_ON_SKIP=1 any other one is an error (code 1), which ctest passes on.
"""
import collections
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
NO_REASON = "no reason was told"
MOST_LINES = 12  # of a test that failed
MOST_FAILURES = 10


def programs(log):
    """(name, output, what ctest says of it: "Test Passed." and the like) of every program that ran."""
    log = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", log)  # mpirun gives its ranks a terminal
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name = part.split("\n", 1)[0].strip()
        output = re.search(r"^Output:\n-+\n(.*)\n<end of output>\n(.*)", part, re.MULTILINE | re.DOTALL)
        if output:
            yield name, output[1], output[2]


def single_tests(output):
    """(test, reason) of the tests that a GoogleTest or unittest program skipped; the rest of it ran."""
    reason, test = None, None
    lines = output.splitlines()
    for i, line in enumerate(lines):
        if line.endswith(": Skipped"):
            reason = lines[i + 1].strip() if i + 1 < len(lines) else None
        elif found := re.match(r"\[  SKIPPED \] (\S+) \(\d+ ms\)", line):
            yield found[1], reason or NO_REASON
            reason = None
        elif found := re.match(r"(test_\w+) \(", line):
            test = found[1]
        if test and (found := re.search(r"\bskipped (['\"])(.*)\1$", line)):
            yield test, found[2]


def failures(output):
    """(test, the first lines of its message) of the tests that failed in a GoogleTest or unittest program."""
    for found in re.finditer(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN      \]).*\n)*?)\[  FAILED  \] \1\b.*ms\)$", output, re.MULTILINE):
        lines = found[2].splitlines()
        first = next((i for i, line in enumerate(lines) if line.endswith(": Failure")), 0)
        yield found[1], lines[first : first + MOST_LINES]
    for found in re.finditer(r"^(?:FAIL|ERROR): (.+)\n-+\n((?:.+\n)*)", output, re.MULTILINE):
        yield found[1], found[2].splitlines()[-MOST_LINES:]


def whole_program(output):
    """The last thing that it said."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return re.sub(r"^(skipped|not run): ", "", lines[-1]) if lines else NO_REASON


def skips(ran):
    """{(program, reason): tests}; no tests where the whole program was skipped."""
    found = collections.OrderedDict()
    for name, output, result in ran:
        if "Test Skipped." in result or "Test Not Run." in result:
            found[name, whole_program(output)] = []
            continue
        for test, reason in single_tests(output):
            tests = found.setdefault((name, reason), [])
            if test not in tests:
                tests.append(test)
    return found


def expected_reasons():
    lines = (HERE / "expected_skips.txt").read_text().splitlines()
    return [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]


def describe(program, reason, tests):
    names = "" if not tests else f" {tests[0]}:" if len(tests) == 1 else f" {len(tests)} tests, the first {tests[0]}:"
    return f"  {program}:{names} {reason}"


def tell_failures(ran):
    failed = [(name, test, lines) for name, output, result in ran if "Test Failed." in result for test, lines in failures(output)]
    if failed:
        print("\nFailed:")
    for name, test, lines in failed[:MOST_FAILURES]:
        print(f"  {name}: {test}")
        for line in lines:
            print(f"    {line[:300]}")
    if len(failed) > MOST_FAILURES:
        print(f"  and {len(failed) - MOST_FAILURES} more")


def main(build):
    log = pathlib.Path(build) / "Testing/Temporary/LastTest.log.tmp"
    ran = list(programs(log.read_text(errors="replace"))) if log.exists() else []
    found = skips(ran)
    expected = expected_reasons()
    surprises = []
    if found:
        print("\nSkipped, and why:")
    for (program, reason), tests in found.items():
        line = describe(program, reason, tests)
        if not any(pattern.search(reason) for pattern in expected):
            surprises.append(line)
        print(line)
    if surprises:
        print(f"{len(surprises)} of these are not expected (tests/expected_skips.txt): what they test was not tested")
        print("\n".join(surprises))
    tell_failures(ran)
    return 1 if surprises and os.environ.get("TRIREME_FAIL_ON_SKIP") == "1" else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
