"""What the tests on stand-ins for the providers share."""
import concurrent.futures
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def environment(**variables):
    """That in which `az`, `aws` and `ssh` are the stand-ins, and python3 is the interpreter of the test itself: one that is found through a
    script, as pyenv's is, takes four times as long to start."""
    return dict(os.environ, PATH=f"{HERE / 'standin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", **variables)


def at_each_point(first, one):
    """Calls one(first), one(first + 1), ..., one on each core at a time, until one says False: nothing failed there, for the whole has fewer
    calls. That point's number."""
    at, together = first, os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(together) as pool:
        while True:
            went_on = list(pool.map(one, range(at, at + together)))
            if False in went_on:
                return at + went_on.index(False)
            at += together
