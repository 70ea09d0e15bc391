#!/usr/bin/env python3
"""scripts/oci_image: every blob has its digest, the layer has the folder's files, and the same folder gives the same bytes. That skopeo, umoci and a
machine take a whole image is what scripts/prove_image shows."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class OciImage(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        root = self.folder / "root"
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/tool").write_text("#!/bin/sh\n")
        (root / "usr/bin/tool").chmod(0o755)
        (root / "bin").symlink_to("usr/bin")
        os.link(root / "usr/bin/tool", root / "usr/bin/other")
        (root / "a name with äöü").write_text("text")

    def make(self, name, *words, root="root"):
        return subprocess.run([sys.executable, str(ROOT / "scripts/oci_image"), str(self.folder / root), str(self.folder / name), "--name", "tool",
                               "--version", "1.2.3", *words], env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def test_it_is_a_layout_whose_digests_are_right(self):
        done = self.make("a.tar", "--user", "1000:1000", "--directory", "/work", "--environment", "A=b c", "--command", "tool", "--command=--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(self.folder / "a.tar") as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive}
        self.assertEqual(json.loads(files.pop("oci-layout")), {"imageLayoutVersion": "1.0.0"})
        index = json.loads(files.pop("index.json"))
        blobs = {}
        for name, data in files.items():
            self.assertEqual(name, "blobs/sha256/" + hashlib.sha256(data).hexdigest())
            blobs["sha256:" + name.rpartition("/")[2]] = data

        def blob(descriptor):
            self.assertEqual(descriptor["size"], len(blobs[descriptor["digest"]]))
            return blobs[descriptor["digest"]]

        manifest = json.loads(blob(index["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        self.assertEqual(config["config"]["User"], "1000:1000")
        self.assertEqual(config["config"]["Env"], ["A=b c"])
        self.assertEqual(config["config"]["Cmd"], ["tool", "--help"])
        self.assertEqual(config["created"], "2023-11-14T22:13:20Z")
        layer = gzip.decompress(blob(manifest["layers"][0]))
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest()])
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            names = tar.getnames()
            self.assertEqual(names, ["a name with äöü", "bin", "usr", "usr/bin", "usr/bin/other", "usr/bin/tool"])
            self.assertEqual(tar.getmember("bin").linkname, "usr/bin")
            self.assertTrue(tar.getmember("usr/bin/tool").islnk(), "the second name of a file is a link")
            self.assertEqual(tar.getmember("usr/bin/other").mode & 0o777, 0o755)
            self.assertLessEqual(max(member.mtime for member in tar), 1700000000)

    def test_the_same_files_give_the_same_bytes(self):
        self.make("a.tar")
        shutil.copytree(self.folder / "root", self.folder / "copy", symlinks=True)
        os.remove(self.folder / "copy/usr/bin/tool")
        os.link(self.folder / "copy/usr/bin/other", self.folder / "copy/usr/bin/tool")
        self.make("b.tar", root="copy")
        self.assertEqual((self.folder / "a.tar").read_bytes(), (self.folder / "b.tar").read_bytes())

    def test_what_is_not_a_folder_is_named(self):
        done = self.make("a.tar", root="absent")
        self.assertEqual((done.returncode, done.stderr), (1, f"oci_image: {self.folder}/absent is not a folder\n"))


if __name__ == "__main__":
    unittest.main()
