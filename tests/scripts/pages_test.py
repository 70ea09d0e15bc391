#!/usr/bin/env python3
"""Every test that a page names exists, and every link leads somewhere: names change."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `Suite.Test`, `Suite.FirstWords...`, `Suite.FirstWords*` or `Suite.*`
NAMED = re.compile(r"`([A-Z]\w+)\.([A-Z]\w*)?(\.\.\.|\*)?`")
# `some_test.py`, maybe with the beginnings of its tests: (`a_rank_that`, `a_host`)
FILES = re.compile(r"`(?:[\w/]*/)?(\w+_test\.(?:py|cc))`(?:\s+\(((?:`\w+`,?\s*)+)\))?")


def missing(text, tests, functions):
    """What `text` names and no test is. tests: "Suite.Test"; functions: by file name, their names without "test_"."""
    names = []
    for found in NAMED.finditer(text):
        suite, name, more = found[1], found[2] or "", found[3]
        begin = f"{suite}.{name}"
        if not (name or more) or begin.endswith(".md"):
            continue
        if not any(test.startswith(begin) if more else test == begin for test in tests):
            names.append(found[0])
    for found in FILES.finditer(text):
        if found[1] not in functions:
            names.append(f"`{found[1]}`")
            continue
        for part in re.findall(r"`(\w+)`", found[2] or ""):
            if not any(part in function for function in functions[found[1]]):
                names.append(f"`{found[1]}` (`{part}`)")
    return names


def all_tests():
    tests, functions = set(), {}
    for file in sorted((ROOT / "tests").rglob("*_test.*")):
        text = file.read_text()
        if file.suffix == ".cc":
            tests |= {f"{suite}.{name}" for suite, name in re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.M)}
            functions.setdefault(file.name, [])
        else:
            functions.setdefault(file.name, []).extend(re.findall(r"def test_(\w+)", text))
    return tests, functions


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower()).replace(" ", "-")


def prose(path):
    """A page without its fenced blocks."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", path.read_text())


def broken_links(path):
    for link in re.findall(r"(?<!!)\]\(([^)\s]+)\)", prose(path)):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        page = (path.parent / target).resolve() if target else path
        if not page.exists():
            yield f"{path.name}: {link}: there is no such file"
        elif anchor and anchor not in map(slug, re.findall(r"(?m)^#+ (.+)$", prose(page))):
            yield f"{path.name}: {link}: {page.name} has no such heading"


class Pages(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        paths = [path for folder in (".", "docs", "bench", "bench/results", "packaging") for path in (ROOT / folder).glob("*.md")]
        self.assertGreater(len(paths), 80)
        self.assertEqual([fault for path in paths for fault in broken_links(path)], [])

    def test_the_first_screen_shows_what_was_recorded(self):
        done = subprocess.run([ROOT / "scripts/draw_results", "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_first_screen_is_short_and_names_every_page(self):
        text = (ROOT / "README.md").read_text()
        self.assertLessEqual(len(text.splitlines()), 160)
        self.assertEqual([page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in text], [])

    def test_every_record_is_in_the_index_of_results(self):
        results = ROOT / "bench/results"
        index = (results / "README.md").read_text()
        self.assertEqual([path.name for path in results.glob("2*.md") if f"({path.name})" not in index], [])

    def test_a_broken_link_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("# What `is` here?\n[a](#what-is-here) [b](#else) [c](none.md) [d](https://example.org/x)\n```\n[e](none2.md)\n```\n")
            self.assertEqual(list(broken_links(page)), ["page.md: #else: page.md has no such heading", "page.md: none.md: there is no such file"])

    maxDiff = None

    def test_every_test_that_a_page_names_exists(self):
        tests, functions = all_tests()
        self.assertGreater(len(tests), 1000)
        named = 0
        for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]):
            text = page.read_text()
            named += len(NAMED.findall(text))
            self.assertEqual(missing(text, tests, functions), [], page.name)
        self.assertGreater(named, 200)

    def test_a_name_that_no_test_has_is_found(self):
        tests, functions = {"Disk.IsFull", "Disk.IsSlow"}, {"host_test.py": ["a_host_dies"]}
        self.assertEqual(missing("`Disk.*`, `Disk.Is...`, `Disk.IsFull`, `host_test.py` (`a_host`)", tests, functions), [])
        self.assertEqual(missing("`Disc.*`, `Disk.Was...`, `Disk.Is`, `host_test.py` (`a_host`,\n  `a_rank`), `no_test.py`", tests, functions),
                         ["`Disc.*`", "`Disk.Was...`", "`Disk.Is`", "`host_test.py` (`a_rank`)", "`no_test.py`"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
