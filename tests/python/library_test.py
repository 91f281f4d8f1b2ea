#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libtallyman.so and the extension: libc only, no symbol newer than glibc 2.34, only the public names exported, C17 header."""

import os
import re
import shutil
import subprocess
import sys

from dump_agent import BUILD, skip

LIBRARIES = {"libtallyman.so": re.compile(r"tally_\w+$"), "python/tallyman/_tallyman.abi3.so": re.compile(r"PyInit__tallyman$")}
ALLOWED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def check(path, exported_name):
    needed = set(re.findall(r"NEEDED\s+(\S+)", subprocess.check_output(["objdump", "-p", path], text=True)))
    problems = [f"{path} needs {n}" for n in needed - ALLOWED]
    for line in subprocess.check_output(["objdump", "-T", path], text=True).splitlines():
        version = re.search(r"GLIBC_(\d+)\.(\d+)", line)
        if version and (int(version[1]), int(version[2])) > (2, 34):
            problems.append(f"{path}: {line.split()[-1]} needs glibc {version[1]}.{version[2]}")
        if "GLIBCXX" in line or "CXXABI" in line:
            problems.append(f"{path}: {line.split()[-1]} is libstdc++'s")
        if re.match(r"^[0-9a-f]+ g .*(\.text|\.data|\.bss)", line) and not exported_name.match(line.split()[-1]):
            problems.append(f"{path} exports {line.split()[-1]}")
    return problems


def main():
    if shutil.which("objdump") is None:
        skip("objdump is not installed")
    problems = []
    for name, exported in LIBRARIES.items():
        path = os.path.join(BUILD, name)
        if not os.path.exists(path):
            skip(f"{name} is not built")
        problems += check(path, exported)
    subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c", "agent/client/tallyman.h"],
                   check=True)
    print("\n".join(problems) or "libc only")
    sys.exit(1 if problems else 0)


main()
