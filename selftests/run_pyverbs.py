#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs rdma-core's tests as its run_tests.py does, and says one line for each.

    run_pyverbs.py TESTS_DIR --dev DEVICE --port 1 --gid INDEX [TEST...]

Lines: "ok ID", "FAIL ID reason", "ERROR ID reason", "skipped ID reason".
run_tests.py's own report cannot be taken apart: test programs print into it.
A test that hangs fails after AGG_PYVERBS_LIMIT seconds (40).
"""
import faulthandler
import importlib.machinery
import os
import signal
import sys
import unittest

LIMIT = int(os.environ.get("AGG_PYVERBS_LIMIT", "40"))


def last_line(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else ""


class Result(unittest.TestResult):
    """One line per test, at once: a crash must not lose the others."""

    def __init__(self):
        super().__init__()
        self.failed_subtest = False

    def say(self, verdict, test, reason=""):
        os.write(OUT, f"{verdict} {test.id()} {reason}".strip().encode() + b"\n")

    def startTest(self, test):
        super().startTest(test)
        self.failed_subtest = False
        faulthandler.dump_traceback_later(LIMIT * 2, exit=True)
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        if not self.failed_subtest:
            self.say("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        sys.stderr.write(self.failures[-1][1])
        self.say("FAIL", test, last_line(self.failures[-1][1]))

    def addError(self, test, err):
        super().addError(test, err)
        sys.stderr.write(self.errors[-1][1])
        self.say("ERROR", test, last_line(self.errors[-1][1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed_subtest = True
            self.say("FAIL", test, last_line(str(err[1])))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skipped", test, last_line(reason))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.say("ok", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.say("FAIL", test, "unexpected success")


def too_long(_signum, _frame):
    raise TimeoutError(f"no end after {LIMIT} s")


def main():
    folder = sys.argv[1]
    sys.argv[0:2] = [os.path.join(folder, "run_tests.py")]
    sys.path.insert(0, folder)
    # pylint: disable=import-error,import-outside-toplevel
    from args_parser import parser
    tests = importlib.machinery.SourceFileLoader(
        "tests", os.path.join(folder, "__init__.py")).load_module()
    parser.parse_args()
    loader = unittest.TestLoader()
    if sys.argv[1:]:
        suite = unittest.TestSuite(loader.loadTestsFromName(name) for name in sys.argv[1:])
    else:
        suite = loader.loadTestsFromModule(tests)
    signal.signal(signal.SIGALRM, too_long)
    result = Result()
    suite.run(result)
    os.write(OUT, f"# end after {result.testsRun} tests\n".encode())
    return 0 if result.wasSuccessful() else 1


# Results go to standard output, whatever tests print does not.
OUT = os.dup(1)
os.dup2(2, 1)
sys.stdout = sys.stderr
sys.exit(main())
