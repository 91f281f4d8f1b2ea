#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""build_wheel.py PACKAGE_DIR OUT_DIR: the package with its extension as one wheel, the same bytes for the same input; prints its path.

The extension is abi3 for 3.10 and needs no glibc newer than 2.34, which is what the tag says; tests/python/library_test.py holds it to that.
"""

import base64
import hashlib
import os
import platform
import re
import sys
import zipfile

METADATA = """Metadata-Version: 2.1
Name: tallyman
Version: {version}
Summary: Ships every metric point of a training run, once
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: tallyman\nRoot-Is-Purelib: false\nTag: {tag}\n"


def add(archive, record, name, data, mode=0o644):
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    archive.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(data)}\n")


def files_of(package):
    for folder, dirs, names in os.walk(package):
        dirs[:] = sorted(d for d in dirs if d != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".pyi", ".typed", ".abi3.so")):
                yield os.path.join(folder, name)


def main(package, out):
    with open(os.path.join(package, "_run.py")) as f:
        version = re.search(r'^__version__ = "(.+)"$', f.read(), re.M)[1]
    tag = f"cp310-abi3-manylinux_2_34_{platform.machine()}"
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"tallyman-{version}-{tag}.whl")
    record, info = [], f"tallyman-{version}.dist-info"
    with zipfile.ZipFile(path + ".part", "w") as archive:
        for file in files_of(package):
            with open(file, "rb") as f:
                add(archive, record, os.path.join("tallyman", os.path.relpath(file, package)), f.read(), 0o755 if file.endswith(".so") else 0o644)
        add(archive, record, f"{info}/METADATA", METADATA.format(version=version).encode())
        add(archive, record, f"{info}/WHEEL", WHEEL.format(tag=tag).encode())
        record.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), "".join(record))
    os.replace(path + ".part", path)
    print(path)


main(*sys.argv[1:])
