#!/usr/bin/env python3
"""What scripts/package says and makes, with tools that play the packagers: the program is a copy of bash, which runs the files
completion and manual as its commands. That its packages install and run on a
bare machine is what scripts/prove_clean_machine --package shows."""
import gzip
import os
import pathlib
import shutil
import subprocess
import tarfile
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


@unittest.skipUnless(shutil.which("strip"), "no strip(1) here, which comes with a compiler")
class Package(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for folder in ("scripts", "tools", "configs", "docs", "build/release", "lib"):
            (self.folder / folder).mkdir(parents=True)
        for name in ("package", "demo", "environment", "trireme.lua.in", "make_wheel.py"):
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts" / name)
        for name, text in {"README.md": "", "LICENSE": "", "docs/install.md": "", "configs/demo.yaml": "",
                           "CMakeLists.txt": "project(trireme VERSION 1.2.3 LANGUAGES CXX)\n"}.items():
            (self.folder / name).write_text(text)
        shutil.copy("/bin/bash", self.folder / "build/release/trireme")
        (self.folder / "completion").write_text("echo for $1")
        (self.folder / "manual").write_text("mkdir -p $2; echo $SOURCE_DATE_EPOCH >$2/trireme.1; touch $2/trireme-train.1")
        self.tool("scripts/build", '[[ "$*" == "release trireme" ]]')
        self.tool("tools/dpkg", "[[ $1 != -S ]] || exit 1; echo amd64")
        self.tool("tools/dpkg-shlibdeps", "echo 'shlibs:Depends=libc6 (>= 2.36)'")
        self.tool("tools/dpkg-deb", 'cp "${@: -2:1}/DEBIAN/control" "${@: -1}"; (cd "${@: -2:1}"; find -type f) >"${@: -1}.files"')
        self.tool("tools/git", "[[ $* != *%ct ]] || { echo 1700000000; exit; }; echo 'A Maintainer <a@b.example>'")
        self.tool("tools/ldconfig", "printf '\\tlibmpi.so.40 (libc6,x86-64) => /mpi/libmpi.so.40\\n'")
        self.libraries()

    def tool(self, name, body):
        (self.folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.folder / name).chmod(0o755)

    def libraries(self, *names_and_paths):
        """What the program is linked with, as ldd tells it; MPI's library loads libfabric."""
        lines = [f"\\t{name} => {path} (0x1)\\n" for name, path in zip(names_and_paths[::2], names_and_paths[1::2])]
        self.tool("tools/ldd", f"case $1 in *release/trireme) printf '{''.join(lines)}' ;; "
                  "*) printf '\\tlibfabric.so.1 => /mpi/libfabric.so.1 (0x1)\\n' ;; esac")

    def package(self, *words, path=None):
        environment = {**os.environ, "PATH": path or f"{self.folder}/tools:{os.environ['PATH']}"}
        return subprocess.run(["/bin/bash", "scripts/package", *words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def assert_fails(self, code, message, *words, path=None):
        done = self.package(*words, path=path)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1:]), (code, [message]), done.stderr)

    def test_both_packages_hold_the_program_its_demo_and_its_pages(self):
        done = self.package("--output", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        control = (self.folder / "out/trireme_1.2.3_amd64.deb").read_text()
        self.assertIn("Depends: libc6 (>= 2.36), ca-certificates\nRecommends: openmpi-bin | mpich, bible-kjv\n", control)
        self.assertIn("Maintainer: A Maintainer <a@b.example>\n", control)
        tarball, = (self.folder / "out").glob("trireme-1.2.3-linux-*.tar.gz")
        with tarfile.open(tarball) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
            self.assertTrue(all(member.uid == 0 for member in archive))
            text = {name.partition("/")[2]: archive.extractfile(name).read() for name in archive.getnames() if archive.getmember(name).isfile()}
        for name in ("bin/trireme", "bin/trireme-demo", "share/trireme/scripts/demo", "share/trireme/scripts/environment",
                     "share/trireme/configs/demo.yaml", "share/doc/trireme/docs/install.md", "share/doc/trireme/copyright"):
            self.assertIn(name, names)
        self.assertEqual(text["share/bash-completion/completions/trireme"], b"for bash\n")
        self.assertEqual(text["share/zsh/site-functions/_trireme"], b"for zsh\n")
        self.assertEqual(text["share/fish/vendor_completions.d/trireme.fish"], b"for fish\n")
        self.assertEqual(gzip.decompress(text["share/man/man1/trireme.1.gz"]), b"1700000000\n", "the date of the last commit")
        self.assertIn("share/man/man1/trireme-train.1.gz", names)
        self.assertIn(b'whatis("Version: 1.2.3")', text["share/modulefiles/trireme/1.2.3.lua"])

    def test_the_modulefile_of_the_deb_is_where_debians_lmod_looks(self):
        self.assertEqual(self.package("--output", "out").returncode, 0)
        files = (self.folder / "out/trireme_1.2.3_amd64.deb.files").read_text().splitlines()
        self.assertIn("./etc/lmod/modules/trireme/1.2.3.lua", files)
        self.assertIn("./DEBIAN/conffiles", files)
        self.assertNotIn("./usr/share/modulefiles/trireme/1.2.3.lua", files)

    def test_the_tarball_takes_nothing_of_the_c_library_along(self):
        (self.folder / "lib/libfmt.so.9").write_text("fmt")
        for name in ("libresolv.so.2", "libanl.so.1", "libc.so.6"):
            (self.folder / "lib" / name).write_text("c")
        self.tool("tools/dpkg", "[[ $1 != -S ]] || { echo bash: $2; exit; }; echo amd64")
        (self.folder / "lib/libfabric.so.1").write_text("of MPI")
        self.libraries(*sum(([path.name, str(path)] for path in sorted((self.folder / "lib").iterdir())), []))
        done = self.package("--output", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(next((self.folder / "out").glob("*.tar.gz"))) as archive:
            bundled = sorted(name.rpartition("/")[2] for name in archive.getnames() if "/lib/trireme/" in name)
        self.assertEqual(bundled, ["libfmt.so.9"], "what MPI loads stays the system's")

    def test_the_wheel_is_the_tree_of_the_tarball(self):
        self.tool("tools/bible", "echo 'Gen1:1 In the beginning'")
        done = self.package("--output", "out", "--wheel")
        self.assertEqual(done.returncode, 0, done.stderr)
        wheel, = (self.folder / "out").glob("*.whl")
        self.assertRegex(wheel.name, r"^trireme-1\.2\.3-py3-none-manylinux_2_\d+_x86_64\.whl$")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", self.folder / "installed", wheel],
                       check=True, stdin=subprocess.DEVNULL)
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            self.assertIn("trireme-1.2.3.data/scripts/trireme", names)
            self.assertIn("trireme-1.2.3.data/data/share/trireme/configs/demo.yaml", names)
            self.assertEqual(archive.read("trireme-1.2.3.data/data/share/trireme/text.txt"), b"In the beginning\n")
            self.assertIn(b"share/trireme/scripts/demo", archive.read("trireme-1.2.3.data/scripts/trireme-demo"))
            self.assertIn(b"Tag: " + wheel.name.split("-", 2)[2].removesuffix(".whl").encode(), archive.read("trireme-1.2.3.dist-info/WHEEL"))
            recorded = {line.split(",")[0] for line in archive.read("trireme-1.2.3.dist-info/RECORD").decode().splitlines()}
            self.assertEqual(recorded, names)

    def test_typing_errors_are_reported(self):
        self.assert_fails(2, "package: unknown argument --deb; there are --output DIR, --cuda, --wheel, --portable and --image", "--deb")
        self.assert_fails(1, "package: --output needs a value", "--output")

    def test_a_missing_tool_is_named_with_its_package(self):
        bare = self.folder / "bare"
        bare.mkdir()
        for tool in ("bash", "dirname", "sed"):
            (bare / tool).symlink_to(shutil.which(tool))
        self.assert_fails(1, "package: no dpkg-deb here; apt-get install dpkg-dev brings it", path=str(bare))
        (bare / "dpkg-deb").symlink_to("/bin/true")
        self.assert_fails(1, "package: no dpkg-shlibdeps here; apt-get install dpkg-dev brings it", path=str(bare))

    def test_a_project_without_a_version_is_not_packaged(self):
        (self.folder / "CMakeLists.txt").write_text("project(trireme)\n")
        self.assert_fails(1, "package: CMakeLists.txt has no version")

    def test_the_output_of_the_packager_comes_before_its_failure(self):
        self.tool("tools/dpkg-shlibdeps", "echo 'no dependency information found for libodd.so' >&2; exit 2")
        done = self.package()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "no dependency information found for libodd.so\npackage: dpkg-shlibdeps failed\n")
        self.tool("tools/dpkg-shlibdeps", "echo 'shlibs:Depends=libc6'")
        self.tool("tools/dpkg-deb", "echo 'dpkg-deb: error: no room' ; exit 2")
        done = self.package()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "dpkg-deb: error: no room\npackage: dpkg-deb failed\n")

    def test_a_library_that_belongs_to_no_package_is_named(self):
        odd = self.folder / "lib/libodd.so.1"
        odd.write_text("")
        self.libraries("libodd.so.1", odd)
        self.assert_fails(1, f"package: no package has {odd}")


if __name__ == "__main__":
    unittest.main()
