#!/usr/bin/env python3
"""Makes a wheel of a tree as scripts/package lays it for the tarball: make_wheel.py TREE VERSION OUTPUT [LICENSE].

An installer copies bin/ to the environment's bin, all else to its prefix, so that the program finds its libraries, as in the tarball, in
../lib/trireme. `python -m trireme` starts it, too. The tag names the lowest C library that what is in the tree asks for."""
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

MAIN = '''"""Starts the program of this environment: python -m trireme ARGUMENTS."""
import os
import sys
import sysconfig

program = os.path.join(sysconfig.get_path("scripts"), "trireme")
os.execv(program, [program, *sys.argv[1:]])
'''
DEMO = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/../share/trireme/scripts/demo" "$@"\n'


def lowest_c_library(files):
    """N of GLIBC_2.N, the newest version of a symbol that one of the files needs."""
    newest = 0
    for file in files:
        if file.read_bytes()[:4] == b"\x7fELF":
            text = subprocess.run(["readelf", "--version-info", "--wide", file], stdout=subprocess.PIPE, text=True, check=True).stdout
            newest = max([newest, *(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", text))])
    return newest


def contents(tree, version):
    """(name in the wheel, bytes, executable) of everything but its dist-info."""
    yield "trireme/__init__.py", f'__version__ = "{version}"\n'.encode(), False
    yield "trireme/__main__.py", MAIN.encode(), False
    for file in sorted(path for path in tree.rglob("*") if path.is_file() or path.is_symlink()):
        place = file.relative_to(tree)
        if place.parts[0] == "bin":
            text = DEMO.encode() if place.name == "trireme-demo" else file.read_bytes()
            yield f"trireme-{version}.data/scripts/{place.name}", text, True
        else:
            yield f"trireme-{version}.data/data/{place.as_posix()}", file.read_bytes(), bool(file.stat().st_mode & 0o111)


def main(tree, version, output, licence=""):
    tree = pathlib.Path(tree)
    tag = f"py3-none-manylinux_2_{lowest_c_library(path for path in tree.rglob('*') if path.is_file())}_x86_64"
    info = f"trireme-{version}.dist-info"
    files = list(contents(tree, version))
    files.append((f"{info}/METADATA", f"""Metadata-Version: 2.1
Name: trireme
Version: {version}
Summary: Trains and fine-tunes transformer language models on CPUs and GPUs, alone or on a cluster
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/plain

A program without Python: the wheel only carries it. `trireme --help` lists its commands, `trireme-demo` shows every part.
Several ranks need an MPI: `pip install mpich`, or the system's.
""".encode(), False))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: trireme\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False))
    if licence:
        files.append((f"{info}/licenses/LICENSE", pathlib.Path(licence).read_bytes(), False))
    record = ""
    path = pathlib.Path(output) / f"trireme-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data, executable):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        for name, data, executable in files:
            add(name, data, executable)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), False)
    size = path.stat().st_size
    if size > 100 << 20:
        path.unlink()
        sys.exit(f"make_wheel: {path.name} has {size / 1e6:.0f} MB; package indexes take 100")
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
