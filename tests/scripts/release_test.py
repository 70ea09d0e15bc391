#!/usr/bin/env python3
"""A release of sources alone: the archive, the recipes as their tools read them, contents and checksums."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
URL = "https://example.org/trireme"


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.clone = cls.work / "clone"
        for name in ("CMakeLists.txt", "CHANGELOG.md", "LICENSE", "scripts/release"):
            (cls.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, cls.clone / name)
        shutil.copytree(ROOT / "packaging", cls.clone / "packaging")
        cls.git("init", "--quiet")
        cls.git("add", "--all")
        cls.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Begin")
        cls.made = cls.work / "made"
        cls.first = cls.release(cls.made)
        cls.version = next(cls.made.glob("*.tar.gz")).name.removeprefix("trireme-").removesuffix(".tar.gz")

    @classmethod
    def git(cls, *words):
        subprocess.run(["git", "-C", cls.clone, *words], check=True)

    @classmethod
    def release(cls, output):
        return subprocess.run([cls.clone / "scripts/release", "--url", URL, "--source-only", "--output", output], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def archive(self):
        return self.made / f"trireme-{self.version}.tar.gz"

    def test_the_archive_has_the_committed_files_and_the_same_bytes_each_time(self):
        self.assertEqual(self.first.returncode, 0, self.first.stdout)
        with tarfile.open(self.archive()) as archive:
            self.assertIn(f"trireme-{self.version}/CMakeLists.txt", archive.getnames())
        self.assertEqual(self.release(self.work / "again").returncode, 0)
        self.assertEqual(self.archive().read_bytes(), (self.work / "again" / self.archive().name).read_bytes())

    def test_recipes_name_this_archive(self):
        digest = hashlib.sha256(self.archive().read_bytes()).hexdigest()
        recipes = [path for path in (self.made / "packaging").rglob("*") if path.is_file()]
        self.assertFalse([path for path in recipes if path.suffix == ".in" or "@VERSION@" in path.read_text()])
        for name in (f"easybuild/trireme-{self.version}-gompi-2025b.eb", "spack/packages/trireme/package.py", "conda/recipe.yaml"):
            text = (self.made / "packaging" / name).read_text()
            self.assertIn(digest, text)
            self.assertIn(URL, text)

    def test_easyconfigs_are_python_with_every_required_parameter(self):
        files = sorted((self.made / "packaging/easybuild").glob("*.eb"))
        self.assertEqual(len(files), 3)
        for file in files:
            values = {"SYSTEM": {"name": "system"}, "SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz", "SHLIB_EXT": "so"}
            exec(compile(file.read_text(), file, "exec"), values)  # as EasyBuild's parser does
            for name in ("name", "version", "homepage", "description", "toolchain", "sources", "checksums", "moduleclass"):
                self.assertIn(name, values, file)
            suffix = "" if values["toolchain"]["name"] == "system" else f"-{values['toolchain']['name']}-{values['toolchain']['version']}"
            self.assertEqual(file.name, f"{values['name']}-{values['version']}{suffix}.eb")

    def test_the_package_of_spack_imports_and_names_every_library_that_cmake_asks_for(self):
        calls, made = [], {}
        class Package:
            def __init_subclass__(cls, **_):
                made["class"] = cls
        stubs = types.ModuleType("spack.package")
        for name in ("license", "version", "depends_on", "conflicts", "generator", "variant"):
            setattr(stubs, name, lambda *words, _name=name, **more: calls.append((_name, *words)))
        modules = {"spack": types.ModuleType("spack"), "spack.package": stubs}
        for name, mixin in (("cmake", "CMakePackage"), ("cuda", "CudaPackage")):
            module = types.ModuleType(f"spack_repo.builtin.build_systems.{name}")
            setattr(module, mixin, type(mixin, (Package,), {}))
            modules[module.__name__] = module
        sys.modules.update(modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in modules])
        file = self.made / "packaging/spack/packages/trireme/package.py"
        exec(compile(file.read_text(), file, "exec"), {})
        self.assertEqual(made["class"].__name__, "Trireme")
        self.assertIn(("version", self.version), calls)
        needed = {call[1].split("@")[0] for call in calls if call[0] == "depends_on"}
        libraries = (ROOT / "cmake/dependencies.cmake").read_text()
        for ours, theirs in {"fmt": "fmt", "spdlog": "spdlog", "yaml-cpp": "yaml-cpp", "dnnl": "onednn", "ZLIB": "zlib-api", "CURL": "curl", "OpenSSL": "openssl",
                             "libhwy": "highway", "hwloc": "hwloc", "libpcre2-8": "pcre2", "libutf8proc": "utf8proc", "libzstd": "zstd", "libxxhash": "xxhash",
                             "simdjson": "simdjson"}.items():
            self.assertIn(ours, libraries)
            self.assertIn(theirs, needed)
        self.assertEqual(libraries.count("pkg_check_modules("), 7, "cmake/dependencies.cmake has another library: packaging/ needs it, too")

    def test_contents_and_checksums_are_of_these_files(self):
        document = json.loads((self.made / f"trireme-{self.version}.spdx.json").read_text())
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["packages"][0]["checksums"][0]["checksumValue"], hashlib.sha256(self.archive().read_bytes()).hexdigest())
        subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=self.made, check=True)

    def test_what_is_not_committed_or_not_described_is_refused(self):
        log = self.clone / "CHANGELOG.md"
        text = log.read_text()
        self.addCleanup(log.write_text, text)
        log.write_text(text + "\nmore\n")
        changed = self.release(self.work / "changed")
        self.assertEqual(changed.returncode, 1)
        self.assertIn("these changes are not committed, so the archive would not have them:\n M CHANGELOG.md", changed.stdout)
        log.write_text("# Changes\n")
        self.assertIn(f'CHANGELOG.md has no section "## {self.version}"', self.release(self.work / "undescribed").stdout)
        log.write_text(text)
        self.assertIn("exists; remove it or give another --output", self.release(self.made).stdout)


if __name__ == "__main__":
    unittest.main()
