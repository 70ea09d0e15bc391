#!/usr/bin/env python3
"""How files are compiled: compiling_test.py BUILD_FOLDER reads its compile_commands.json."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()


def settings(command):
    """What GCC compares between precompiled headers and a file that uses them: the last -O, -g, -std and the sets of -f and -m."""
    words = command.split()
    last = [next((w for w in reversed(words) if re.match(pattern, w)), "") for pattern in ("-O", "-g[0-9]?$", "-std=")]
    return last + sorted({w for w in words if re.match("-[fm]", w)})


class Compiling(unittest.TestCase):
    def test_precompiled_headers_serve_files_of_their_own_settings_only(self):
        entries = json.loads((BUILD / "compile_commands.json").read_text())
        headers = {e["file"].removesuffix(".cxx"): e for e in entries if e["file"].endswith("cmake_pch.hxx.cxx")}
        if not headers:
            self.skipTest("this build has no precompiled headers")
        used = 0
        for entry in entries:
            include = re.search(r" -include (\S+cmake_pch\.hxx)", entry["command"])
            if include and not entry["file"].endswith("cmake_pch.hxx.cxx"):
                used += 1
                self.assertEqual(settings(entry["command"]), settings(headers[include[1]]["command"]), entry["file"])
        self.assertGreater(used, 10)

    def flags(self, *arguments):
        """Those that every target is compiled with."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(flags CXX)\ninclude(%s/cmake/toolchain.cmake)\n"
                "file(WRITE ${CMAKE_BINARY_DIR}/x.cc \"int x;\")\nadd_library(x ${CMAKE_BINARY_DIR}/x.cc)\n"
                "target_link_libraries(x trireme_flags)\nset_target_properties(x PROPERTIES EXPORT_COMPILE_COMMANDS ON)\n" % ROOT)
            made = subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *arguments], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
            self.assertEqual(made.returncode, 0, made.stdout)
            return json.loads((folder / "build" / "compile_commands.json").read_text())[0]["command"].split()

    def test_warnings_are_errors_only_where_asked_for(self):
        self.assertNotIn("-Werror", self.flags())
        self.assertIn("-Werror", self.flags("-DTRIREME_WERROR=ON"))
        self.assertIn("-Wall", self.flags("-DTRIREME_WERROR=OFF"))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
