# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: what they hold, what lintian and systemd say of them."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

from pipeline import BUILD, skip

EXPOSURE_MAX = 2.0


def output(*argv):
    r = subprocess.run(argv, capture_output=True, text=True)
    assert r.returncode == 0, (argv, r.stdout, r.stderr)
    return r.stdout


def build(where):
    output("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", where)
    return {os.path.basename(p).split("_")[0]: p for p in glob.glob(os.path.join(where, "*.deb"))}


def contents(debs, where):
    tree = os.path.join(where, "tree")
    for deb in debs.values():
        output("dpkg-deb", "-x", deb, tree)
    for path in ("usr/bin/tallyman", "usr/lib/libtallyman.so", "usr/include/tallyman.h", "usr/lib/pkgconfig/tallyman.pc", "etc/tallyman/agent.toml",
                 "etc/tallyman/receiver.toml", "lib/systemd/system/tallyman-agent.socket", "lib/sysusers.d/tallyman.conf", "lib/tmpfiles.d/tallyman.conf"):
        found = [os.path.join(tree, p) for p in (path, "usr/" + path) if os.path.exists(os.path.join(tree, p))]
        assert found, path
    conffiles = output("dpkg-deb", "-I", debs["tallyman"], "conffiles").split()
    assert conffiles == ["/etc/tallyman/agent.toml", "/etc/tallyman/receiver.toml"], conffiles
    binary = os.path.join(tree, "usr/bin/tallyman")
    for config in ("agent", "receiver"):
        output(binary, "check", os.path.join(tree, "etc/tallyman", config + ".toml"))
    return tree


def units(tree):
    for name in ("agent", "receiver"):
        unit = glob.glob(os.path.join(tree, "**", f"tallyman-{name}.service"), recursive=True)[0]
        with open(unit, encoding="utf-8") as f:
            text = f.read()
        assert "Type=notify" in text and "WatchdogSec=" in text and "PrivateUsers=yes" not in text
        if shutil.which("systemd-analyze"):
            said = output("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
            exposure = float(re.search(r"Overall exposure level for .*: ([0-9.]+)", said).group(1))
            assert exposure <= EXPOSURE_MAX, said
        if name == "agent":
            assert "FileDescriptorStoreMax=4096" in text


def lint(debs):
    if not shutil.which("lintian"):
        print("SKIP: lintian is not installed")
        return
    for deb in debs.values():
        r = subprocess.run(["lintian", "--fail-on", "error", deb], capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr


def main():
    if not (shutil.which("cpack") and shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps")):
        skip("no tools for Debian packages here (dpkg-dev)")
    with tempfile.TemporaryDirectory(prefix="tally-deb-") as where:
        debs = build(where)
        assert set(debs) == {"tallyman", "libtallyman"}, debs
        units(contents(debs, where))
        lint(debs)


main()
