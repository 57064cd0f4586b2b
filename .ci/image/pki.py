"""A temporary certificate authority."""

import subprocess
from pathlib import Path

NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


class Authority:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.certificate, self.key = self.folder / "authority.crt", self.folder / "authority.key"
        openssl(*NEW, "-subj", "/CN=authority of this run", "-keyout", self.key, "-out", self.certificate)

    def issue(self, name, *alternatives):
        """Issues a certificate for these names (DNS:…, IP:…); returns the files of certificate and key."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        openssl(
            *NEW, "-CA", self.certificate, "-CAkey", self.key, "-subj", f"/CN={name}",
            "-addext", f"subjectAltName={','.join(alternatives)}", "-addext", "basicConstraints=critical,CA:FALSE",
            "-keyout", key, "-out", certificate,
        )  # fmt: skip
        return certificate, key


def openssl(*arguments):
    subprocess.run(arguments, check=True, capture_output=True)
