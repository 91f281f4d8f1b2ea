# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a test's own, made with openssl(1)."""

import os
import subprocess

CONFIG = """[ca]
default_ca = me
[me]
database = {dir}/index.txt
new_certs_dir = {dir}
serial = {dir}/serial
default_md = sha256
policy = any
email_in_dn = no
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = none
[none]
[v3_ca]
basicConstraints = critical,CA:true
"""


class Authority:
    """Certificates with any validity, for any name. Times are as openssl writes them: YYMMDDHHMMSSZ."""

    def __init__(self, directory):
        self.dir = directory
        os.makedirs(directory)
        for name, content in (("index.txt", ""), ("serial", "01\n"), ("ca.cnf", CONFIG.format(dir=directory))):
            with open(os.path.join(directory, name), "w", encoding="ascii") as f:
                f.write(content)
        self.key, self.cert = self.path("ca.key"), self.path("ca.pem")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.cert,
                      "-subj", "/CN=test authority", "-days", "2", "-config", self.path("ca.cnf"), "-extensions", "v3_ca")

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, label, names="DNS:localhost,IP:127.0.0.1", start=None, end="491231235959Z"):
        """Paths of a new certificate and its key."""
        key, request, cert = (self.path(label + suffix) for suffix in (".key", ".csr", ".pem"))
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj",
                      f"/CN={label}", "-addext", "subjectAltName=" + names, "-config", self.path("ca.cnf"))
        when = ["-startdate", start] if start else []
        self._openssl("ca", "-batch", "-notext", "-config", self.path("ca.cnf"), "-cert", self.cert, "-keyfile", self.key, "-in", request, "-out",
                      cert, "-enddate", end, *when)
        return cert, key

    @staticmethod
    def _openssl(*args):
        done = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
