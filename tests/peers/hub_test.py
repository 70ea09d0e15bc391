#!/usr/bin/env python3
"""Python's huggingface_hub and trireme share one cache: each finds what the other has fetched, from a hub of this test's own.

usage: hub_test.py TRIREME; exit code 77 where huggingface_hub is not installed
"""
import hashlib
import http.server
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b'{"model_type": "gpt2"}', "tokenizer.json": b'{"model": {}}', "model.safetensors": b"weights" * 10000}
TRIREME = sys.argv[1]


def etag(name):
    data = FILES[name]
    if name.endswith(".safetensors"):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = []

    def answer(self):
        self.asked.append(self.path)
        name = self.path.rsplit("/", 1)[-1]
        headers, body, status = {}, b"", 404
        if self.path.startswith("/api/models/tiny/gpt2/revision/"):
            siblings = ",".join('{"rfilename": "%s"}' % file for file in FILES)
            status, body = 200, ('{"id": "tiny/gpt2", "sha": "%s", "siblings": [%s]}' % (COMMIT, siblings)).encode()
            headers["Content-Type"] = "application/json"
        elif self.path.startswith("/tiny/gpt2/resolve/") and name in FILES:
            status, body = 200, FILES[name]
            headers = {"X-Repo-Commit": COMMIT, "ETag": '"%s"' % etag(name)}
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD = answer

    def log_message(self, *_):
        pass


class OneCache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        Hub.asked.clear()
        self.environment = {**os.environ, "HF_HOME": self.folder.name, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
                            "HF_HUB_DISABLE_TELEMETRY": "1", "HF_ENDPOINT": "http://127.0.0.1:%d" % self.server.server_address[1]}

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def python(self, code, **variables):
        done = subprocess.run([sys.executable, "-c", code], env={**self.environment, **variables}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def trireme(self, *words, **variables):
        return subprocess.run([TRIREME, *words], env={**self.environment, **variables}, capture_output=True, text=True)

    def test_python_finds_what_trireme_fetched(self):
        fetched = self.trireme("fetch", "tiny/gpt2")
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        for name, data in FILES.items():
            path = self.python("import huggingface_hub as h; print(h.hf_hub_download('tiny/gpt2', '%s'))" % name, HF_HUB_OFFLINE="1")
            self.assertEqual(path, fetched.stdout.strip() + "/" + name)
            self.assertEqual(pathlib.Path(path).read_bytes(), data)
        Hub.asked.clear()  # online it asks what is newest, and fetches nothing
        self.python("import huggingface_hub as h; h.hf_hub_download('tiny/gpt2', 'model.safetensors')")
        self.assertLessEqual(sum(path.endswith("model.safetensors") for path in Hub.asked), 1)
        listed = self.python("import huggingface_hub as h; r, = h.scan_cache_dir().repos; print(r.repo_id, r.nb_files, *[x.refs for x in r.revisions])")
        self.assertEqual(listed, "tiny/gpt2 3 frozenset({'main'})")

    def test_trireme_finds_what_python_fetched(self):
        for name in FILES:
            self.python("import huggingface_hub as h; h.hf_hub_download('tiny/gpt2', '%s')" % name)
        Hub.asked.clear()
        opened = self.trireme("tokenizer", "encode", "--tokenizer", "tiny/gpt2", HF_HUB_OFFLINE="1")
        self.assertIn("snapshots/%s/tokenizer.json" % COMMIT, opened.stderr)  # found; that it is no tokenizer is another matter
        again = self.trireme("fetch", "tiny/gpt2")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(Hub.asked, ["/api/models/tiny/gpt2/revision/main"])


if __name__ == "__main__":
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        print("not run: no huggingface_hub; scripts/bootstrap --peers makes it")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
