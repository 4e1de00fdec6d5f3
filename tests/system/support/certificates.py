"""Certificates for TLS tests, made with the openssl program: an authority, a broker and a client that it signed."""

import ssl
import subprocess
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")  # elliptic: made in no time
BROKER_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:b1,DNS:b2.example,URI:spiffe://acme/broker/b3\n"
# What strict verification, the default from Python 3.13 on, wants to see.
ROOT_USAGE = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
LEAF = "basicConstraints=critical,CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"


class Authority:
    """Signs; its files lie in a folder: `<name>.pem` and `<name>.key`."""

    def __init__(self, openssl: str, folder: Path, name: str) -> None:
        self._openssl = openssl
        self._folder = folder
        self._name = name
        made = ("-keyout", str(self.key(name)), "-out", str(self.certificate(name)))
        self._run("req", "-x509", *KEY, *ROOT_USAGE, "-days", "2", "-subj", f"/CN={name}", *made)

    @property
    def root(self) -> Path:
        """Its own certificate."""
        return self.certificate(self._name)

    def certificate(self, name: str) -> Path:
        """A certificate."""
        return self._folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        """Its key."""
        return self._folder / f"{name}.key"

    def sign(self, name: str, extensions: str = "", subject: str = "") -> None:
        """Makes a key and a certificate of this name. `subject`: if it has more, `/O=Acme/CN=x`."""
        wanted, extra = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extra.write_text(LEAF + extensions)
        about = ("-subj", subject or f"/CN={name}")
        self._run("req", "-new", *KEY, *about, "-keyout", str(self.key(name)), "-out", str(wanted))
        signer = ("-CA", str(self.root), "-CAkey", str(self.key(self._name)), "-CAcreateserial")
        made = ("-in", str(wanted), "-out", str(self.certificate(name)), "-extfile", str(extra))
        self._run("x509", "-req", "-days", "2", *signer, *made)

    def revoke(self, *names: str, of: str = "list", period: tuple[str, ...] = ("-crldays", "2")) -> Path:
        """A list of these certificates and of those that it has revoked before, in `<of>.crl`."""
        settings, made = self._folder / "ca.cnf", self._folder / f"{of}.crl"
        index = self._folder / "index.txt"
        settings.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={index}\ndefault_md=sha256\n")
        index.touch()
        itself = ("-config", str(settings), "-cert", str(self.root), "-keyfile", str(self.key(self._name)))
        for name in names:
            self._run("ca", *itself, "-revoke", str(self.certificate(name)))
        self._run("ca", *itself, "-gencrl", *period, "-out", str(made))
        return made

    def broker_options(self) -> dict[str, Path]:
        """Of a broker process that shows the certificate `broker`."""
        return {"tls__certificate": self.certificate("broker"), "tls__key": self.key("broker")}

    def client_context(self, name: str | None = None) -> ssl.SSLContext:
        """Trusts this authority, and shows the certificate of this name."""
        context = ssl.create_default_context(cafile=str(self.root))
        if name is not None:
            context.load_cert_chain(self.certificate(name), self.key(name))
        return context

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [self._openssl, *arguments], capture_output=True, text=True, check=False, cwd=self._folder
        )
        assert done.returncode == 0, done.stderr
