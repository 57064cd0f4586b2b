"""python3 .ci/image PROGRAM: lays out the files of the image with the program, checks them, and runs the program in
them: serving, reporting over TLS to a name resolved by DNS, and watching a cluster.

Needs root, crun, ip, openssl and readelf. All processes share a separate network namespace without external access.
"""

import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

from container import USER, Containers
from dns import Dns
from kube_api import KubeApi
from pki import Authority

SOURCES = Path(__file__).parents[2]
CREATED = 1_700_000_000
SERVICE, ALIAS, ELSEWHERE = "compliance.example.test", "alias.example.test", "elsewhere.example.test"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

EXPECTED = """\
drwxr-xr-x .
drwxr-xr-x ./etc
-rw-r--r-- ./etc/group
-rw-r--r-- ./etc/passwd
drwxr-xr-x ./etc/ssl
drwxr-xr-x ./etc/ssl/certs
-rw-r--r-- ./etc/ssl/certs/ca-certificates.crt
-rwxr-xr-x ./supercargo
drwxr-xr-x ./usr
drwxr-xr-x ./usr/share
drwxr-xr-x ./usr/share/licenses
drwxr-xr-x ./usr/share/licenses/supercargo
-rw-r--r-- ./usr/share/licenses/supercargo/LICENSE
-rw-r--r-- ./usr/share/licenses/supercargo/THIRD-PARTY
"""
# Size limits of the program and of the image, in bytes.
MAX_PROGRAM_BYTES, MAX_IMAGE_BYTES = 32_000_000, 34_000_000

BOOTSTRAP = """\
generation: 1
organizations:
  - name: acme
    tokens:
      - {name: cluster, role: report, environments: ["*"], file: token}
    environments: [{name: prod}, {name: large}]
"""


def main(program):
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        # Accessible to the user of the containers.
        os.chmod(folder, 0o755)
        fixture = Fixture(Path(folder), program)
        try:
            for check in CHECKS:
                check(fixture)
                print("ok:", check.__name__.replace("_", " "), flush=True)
        finally:
            fixture.containers.end()
    print(f"{len(CHECKS)} passed, 0 failed")


class Fixture:
    """Shared by the checks: the image's files, a name server, a certificate authority and a token."""

    def __init__(self, folder, program):
        self.folder, self.root = folder, folder / "image"
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(CREATED)}
        subprocess.run(["bash", SOURCES / "scripts/rootfs", program, self.root], check=True, env=env)
        (folder / "run").mkdir()
        self.containers = Containers(self.root, folder / "run")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.dns = Dns(SERVICE)
        self.authority = Authority(folder)
        self.token = secrets.token_hex(32)
        self.serve = None
        # As written by a kubelet: names with fewer than five dots are tried with the search domains first.
        self.file("resolv.conf", "search team.svc.cluster.test cluster.test\nnameserver 127.0.0.1\noptions ndots:5\n")
        self.file("hosts", f"127.0.0.1 localhost\n127.0.0.1 {ALIAS}\n")
        self.file("token", self.token)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def mounts(self, *others):
        ours = [(self.folder / name, f"/etc/{name}", "ro") for name in ("resolv.conf", "hosts")]
        return [*ours, (self.folder / "token", "/var/run/secrets/supercargo/token", "ro"), *others]

    def env(self, host=SERVICE):
        return {
            "SUPERCARGO_BASE_URL": f"https://{host}:8443",
            "SUPERCARGO_ORG": "acme",
            "SUPERCARGO_TOKEN_FILE": "/var/run/secrets/supercargo/token",
        }

    def report(self, name, *arguments, host=SERVICE, mounts=(), environment="prod", pods=None):
        """Runs `agent --once`, by default with the example's pods."""
        pods = (pods or SOURCES / "examples/pods.json", "/pods.json", "ro")
        return self.containers.run(
            name, "agent", "--once", "--timeout", "20s", "--environment", environment, "--pods-from", "/pods.json",
            *arguments, env=self.env(host), mounts=self.mounts(pods, *mounts),
        )  # fmt: skip

    def trusting(self):
        """Mounts of a client that trusts the service's certificate authority."""
        return {"mounts": [(self.authority.certificate, "/authority.crt", "ro")]}


def image_contains_only_the_expected_files(fixture):
    listed = ["find", ".", "-printf", "%M %p %U %G %Ts\n"]
    found = subprocess.run(listed, cwd=fixture.root, check=True, capture_output=True, text=True).stdout
    expected = [f"{line} 0 0 {CREATED}" for line in EXPECTED.splitlines()]
    assert sorted(found.splitlines()) == sorted(expected), found


def program_is_static_and_within_the_size_limit(fixture):
    program = fixture.root / "supercargo"
    elf = subprocess.run(
        ["readelf", "--wide", "--program-headers", "--dynamic", program], check=True, capture_output=True, text=True
    ).stdout
    assert "INTERP" not in elf and "NEEDED" not in elf, elf
    total = sum(path.stat().st_size for path in fixture.root.rglob("*") if path.is_file())
    print(f"    {program.stat().st_size} bytes of {total} in total")
    assert program.stat().st_size < MAX_PROGRAM_BYTES and total < MAX_IMAGE_BYTES


def licenses_cover_the_linked_code(fixture):
    text = (fixture.root / "usr/share/licenses/supercargo/THIRD-PARTY").read_text()
    for name in ["GNU C Library", "Rust standard library", "tokio", "aws-lc-sys", "libsqlite3-sys"]:
        assert f"\n== {name} " in text, name
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text


def version_is_printed(fixture):
    manifest = (SOURCES / "Cargo.toml").read_text()
    version = manifest.split('version = "', 1)[1].split('"', 1)[0]
    ran = fixture.containers.run("version", "--version")
    assert (ran.code, ran.output) == (0, f"supercargo {version}\n"), ran.output


def serve_stores_its_database_in_a_volume(fixture):
    volume = fixture.folder / "volume"
    volume.mkdir()
    os.chown(volume, USER, USER)
    certificate, key = fixture.authority.issue("service", f"DNS:{SERVICE}", f"DNS:{ALIAS}")
    # The kubelet makes the files of a Secret readable by the pod's group.
    os.chown(key, 0, USER)
    key.chmod(0o440)
    bootstrap = fixture.file("bootstrap.yaml", BOOTSTRAP)
    fixture.serve = fixture.containers.start(
        "serve",
        *("serve", "--listen", "127.0.0.1:8443", "--admin-listen", "127.0.0.1:8081"),
        *("--tls-cert", "/etc/supercargo/tls.crt", "--tls-key", "/etc/supercargo/tls.key"),
        *("--database", "sqlite:/var/lib/supercargo/supercargo.db", "--bootstrap", "/etc/supercargo/bootstrap.yaml"),
        mounts=fixture.mounts(
            (volume, "/var/lib/supercargo", "rw"),
            (bootstrap, "/etc/supercargo/bootstrap.yaml", "ro"),
            (fixture.folder / "token", "/etc/supercargo/token", "ro"),
            (certificate, "/etc/supercargo/tls.crt", "ro"),
            (key, "/etc/supercargo/tls.key", "ro"),
        ),
    )
    fixture.serve.wait_for("serving on https://127.0.0.1:8443")
    assert (volume / "supercargo.db").stat().st_uid == USER
    assert get(8081, "/readyz") == 200


def program_runs_without_root_and_capabilities(fixture):
    status = dict(line.split(":\t", 1) for line in fixture.serve.proc("status").splitlines() if ":\t" in line)
    assert set(status["Uid"].split() + status["Gid"].split()) == {str(USER)}, status
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}, status
    assert status["NoNewPrivs"] == "1", status
    root = next(line.split() for line in fixture.serve.proc("mountinfo").splitlines() if line.split()[4] == "/")
    assert "ro" in root[5].split(","), root


def dns_name_is_resolved_and_certificate_verified(fixture):
    ran = fixture.report("by-dns", "--ca-file", "/authority.crt", **fixture.trusting())
    assert ran.code == 0 and "11 pods reported, new snapshot" in ran.output, ran.output
    assert SERVICE in fixture.dns.queried, fixture.dns.queried


def name_in_etc_hosts_is_resolved(fixture):
    ran = fixture.report("by-hosts", "--ca-file", "/authority.crt", host=ALIAS, **fixture.trusting())
    assert ran.code == 0 and "unchanged" in ran.output, ran.output


def unknown_name_is_reported(fixture):
    ran = fixture.report("unknown", "--ca-file", "/authority.crt", host=ELSEWHERE, **fixture.trusting())
    assert ran.code == 6 and ELSEWHERE in ran.output, ran.output
    assert ELSEWHERE in fixture.dns.queried, fixture.dns.queried


def untrusted_certificate_is_rejected(fixture):
    ran = fixture.report("untrusted")
    assert ran.code == 6 and "certificate" in ran.output, ran.output


def bundle_in_the_image_is_trusted(fixture):
    path = "etc/ssl/certs/ca-certificates.crt"
    bundle = fixture.file("bundle", (fixture.root / path).read_text() + fixture.authority.certificate.read_text())
    ran = fixture.report("by-bundle", mounts=[(bundle, f"/{path}", "ro")])
    assert ran.code == 0 and "unchanged" in ran.output, ran.output


def large_reports_need_no_temporary_files(fixture):
    for generation in range(2):
        listed = {"apiVersion": "v1", "kind": "List", "items": [pod(n, generation) for n in range(5_000)]}
        pods = fixture.file(f"pods-{generation}.json", json.dumps(listed))
        ran = fixture.report(
            f"large-{generation}", "--ca-file", "/authority.crt", environment="large", pods=pods, **fixture.trusting()
        )
        assert ran.code == 0 and "5000 pods reported, new snapshot" in ran.output, ran.output + fixture.serve.output


def agent_watches_a_cluster_as_a_service_account(fixture):
    account = fixture.folder / "account"
    account.mkdir()
    authority = Authority(account)
    certificate, key = authority.issue("kube-api", "IP:127.0.0.1")
    cluster = KubeApi(token=secrets.token_hex(16), certificate=certificate, key=key)
    fixture.file("account/token", cluster.token)
    fixture.file("account/ca.crt", authority.certificate.read_text())
    fixture.file("account/namespace", "supercargo")
    environments = fixture.file("environments.yaml", "environments:\n  - name: prod\n")
    agent = fixture.containers.start(
        "agent",
        *("agent", "--config", "/etc/supercargo/environments.yaml", "--listen", "0.0.0.0:8082"),
        *("--ca-file", "/authority.crt"),
        env={**fixture.env(), "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"},
        mounts=fixture.mounts(
            *fixture.trusting()["mounts"],
            *((account / name, f"{SERVICE_ACCOUNT}/{name}", "ro") for name in ("token", "ca.crt", "namespace")),
            (environments, "/etc/supercargo/environments.yaml", "ro"),
        ),
    )
    agent.wait_for("pods listed")
    agent.wait_for("pods reported, new snapshot")
    assert [get(8082, path) for path in ("/livez", "/readyz", "/metrics")] == [200] * 3
    assert agent.stop() == 0, agent.output
    assert cluster.seen == [("/api/v1/pods", True)], cluster.seen
    cluster.end()


def serve_shuts_down_on_sigterm(fixture):
    assert fixture.serve.stop() == 0, fixture.serve.output


CHECKS = [
    image_contains_only_the_expected_files,
    program_is_static_and_within_the_size_limit,
    licenses_cover_the_linked_code,
    version_is_printed,
    serve_stores_its_database_in_a_volume,
    program_runs_without_root_and_capabilities,
    dns_name_is_resolved_and_certificate_verified,
    name_in_etc_hosts_is_resolved,
    unknown_name_is_reported,
    untrusted_certificate_is_rejected,
    bundle_in_the_image_is_trusted,
    large_reports_need_no_temporary_files,
    agent_watches_a_cluster_as_a_service_account,
    serve_shuts_down_on_sigterm,
]


def pod(n, generation):
    """A running pod with a unique image."""
    name, digest = f"web-{generation}-{n}", f"{generation * 1_000_000 + n:064x}"
    image = f"registry.example.com/shop/web-{n}:{generation}"
    status = {"name": "web", "image": image, "imageID": f"registry.example.com/shop/web-{n}@sha256:{digest}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-09-01T12:00:00Z"},
        "spec": {"containers": [{"name": "web", "image": image}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{**status, "state": {"running": {"startedAt": "2026-09-01T12:00:00Z"}}}],
        },
    }


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().status


if __name__ == "__main__":
    if len(sys.argv) == 2:
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv, "in its own network"])
    if len(sys.argv) != 3:
        sys.exit("usage: python3 .ci/image PROGRAM")
    # crun works without control groups, except if both of their versions are mounted.
    if Path("/sys/fs/cgroup/unified").exists():
        subprocess.run(["mount", "--types", "tmpfs", "none", "/sys/fs/cgroup"], check=True)
    main(Path(sys.argv[1]))
