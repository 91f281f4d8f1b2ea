#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the repository obey itself? Layers, targets, words, headers, sizes. Exit 1 names every violation."""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TALLY_BUILD", os.path.join(ROOT, "build"))
TOP = {"agent", "spool", "transport", "config", "packaging", "tests", "tools", ".ci"}
TOP_FILES = {"README.md", "LICENSE", "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json"}
# word -> what to write instead (the words of the product are one word for one thing)
BANNED = {
    r"\bchunk upload\b": "parcel", r"\bqueue file\b": "segment", r"\bWAL\b": "spool",
    r"\bcheckpoint file\b": "ack file", r"\bconsumer offset\b": "cursor", r"\bblacklist": "denied list",
}
HEAVY = re.compile(r"#include <(spdlog|boost|toml\+\+|liburing)")
PUBLIC_HEADER_DIRS = ("agent/", "spool/", "transport/", "config/", "tools/")
FUNCTION_LINES_MAX = 100  # the ratchet: lower it, never raise it

problems = []


def complain(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def tracked():
    out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [p for p in out.decode().split("\0") if p and os.path.isfile(os.path.join(ROOT, p))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def module_of(path, modules):
    best = ""
    for m in modules:
        if path.startswith(m + "/") and len(m) > len(best):
            best = m
    return best


def load_layers():
    layers = {}
    for line in read("tests/tidy/layers.txt").splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, _, allowed = line.partition(":")
            layers[name] = allowed.split()
    return layers


def check_layers(files):
    layers = load_layers()
    for path in files:
        if not path.endswith((".cpp", ".hpp", ".h", ".c")):
            continue
        module = module_of(path, layers)
        if not module or "*" in layers[module]:
            continue
        for n, line in enumerate(read(path).splitlines(), 1):
            m = re.match(r'#include "((?:agent|spool|transport|config|tools|tests)/[^"]+)"', line)
            if not m:
                continue
            target = module_of(m.group(1), layers)
            leaf = "leaf:" + target in layers[module] and os.path.basename(m.group(1)) == "options.hpp"
            if target != module and target not in layers[module] and not leaf:
                complain(path, n, f"{module} may not include {target} (tests/tidy/layers.txt)")


def check_targets(files):
    commands = os.path.join(BUILD, "compile_commands.json")
    if not os.path.exists(commands):
        sys.exit("tidy: no compile_commands.json; configure the build first")
    with open(commands, encoding="utf-8") as f:
        built = {os.path.relpath(c["file"], ROOT) for c in json.load(f)}
    registered = ""
    for base, _, names in os.walk(os.path.join(BUILD, "tests")):
        if "CTestTestfile.cmake" in names:
            with open(os.path.join(base, "CTestTestfile.cmake"), encoding="utf-8") as f:
                registered += f.read()
    for path in files:
        if path.endswith((".cpp", ".c")) and path not in built and not path.startswith("tests/lib/"):
            complain(path, 1, "no target builds this source")
        script = re.match(r"tests/(e2e|crash|python|tidy)/(.*/)?[^/]+\.py$", path)
        if script and path not in registered:
            complain(path, 1, "no test runs this script")


def check_text(files):
    for path in files:
        if path.startswith("tests/tidy/"):
            continue
        if not path.endswith((".cpp", ".hpp", ".h", ".c", ".py", ".md", ".sql", ".txt", ".toml", ".cmake")):
            continue
        text = read(path)
        for n, line in enumerate(text.splitlines(), 1):
            for pattern, instead in BANNED.items():
                if re.search(pattern, line):
                    complain(path, n, f"banned word /{pattern}/; write {instead}")
            if line.rstrip() != line and not path.endswith(".md"):
                complain(path, n, "trailing blanks")
        if path.endswith((".cpp", ".hpp", ".h", ".c", ".py")) and "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
            complain(path, 1, "no SPDX line at the top")
        if path.endswith(".hpp") and path.startswith(PUBLIC_HEADER_DIRS):
            for n, line in enumerate(text.splitlines(), 1):
                if HEAVY.match(line):
                    complain(path, n, "heavy library in a header")


def check_sizes(files):
    for path in files:
        lines = read(path).count("\n")
        if path == "README.md" and lines > 120:
            complain(path, lines, "README has more than 120 lines")
        if path.endswith("/README.md") and lines > 80:
            complain(path, lines, "a module README has more than 80 lines")
        if path.endswith(".cpp") and not path.startswith("tests/"):
            check_functions(path)


def check_functions(path):
    """clang-format puts a function's closing brace in column 0; its opening line begins in column 0 too."""
    start = None
    for n, line in enumerate(read(path).splitlines(), 1):
        if re.match(r"[A-Za-z].*\) (const |noexcept |override )*\{$", line) and not line.startswith(("namespace", "extern")):
            start = n
        if line == "}" and start is not None:
            if n - start > FUNCTION_LINES_MAX:
                complain(path, start, f"function of {n - start} lines; at most {FUNCTION_LINES_MAX}")
            start = None


def check_top(files):
    for path in files:
        top = path.split("/")[0]
        if "/" in path and top not in TOP:
            complain(path, 1, f"top-level folder {top} is not one of the product's")
        if "/" not in path and not path.startswith(".") and path not in TOP_FILES:
            complain(path, 1, "stray file at the top")


def main():
    files = tracked()
    check_top(files)
    check_layers(files)
    check_targets(files)
    check_text(files)
    check_sizes(files)
    for p in problems:
        print(p)
    print(f"tidy: {len(files)} files, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
