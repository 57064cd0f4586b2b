"""python3 .ci/image PROGRAM: lays out the image's files around the program, says whether they are what they should
be, and has the program do its work among them: serve, report over TLS to a name that DNS knows, and watch a cluster.

Needs root, crun, ip, openssl and readelf. What it starts has a network of its own, where nothing leads out.
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
# In bytes: the design's bound for the program, and what stands beside it.
LARGEST_PROGRAM, LARGEST_IMAGE = 32_000_000, 34_000_000

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
        # The containers' user passes through.
        os.chmod(folder, 0o755)
        scene = Scene(Path(folder), program)
        try:
            for check in CHECKS:
                check(scene)
                print("ok:", check.__name__.replace("_", " "), flush=True)
        finally:
            scene.containers.end()
    print(f"{len(CHECKS)} passed, 0 failed")


class Scene:
    """The image's files, a name server, an authority, and a service account: what the checks share."""

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
        # As a kubelet writes them: names are searched, and each with fewer than five dots first among those.
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
        """`agent --once`, with the example's pods where no others are given."""
        pods = (pods or SOURCES / "examples/pods.json", "/pods.json", "ro")
        return self.containers.run(
            name, "agent", "--once", "--timeout", "20s", "--environment", environment, "--pods-from", "/pods.json",
            *arguments, env=self.env(host), mounts=self.mounts(pods, *mounts),
        )  # fmt: skip

    def trusting(self):
        """The options and mounts of who trusts the service's authority."""
        return {"mounts": [(self.authority.certificate, "/authority.crt", "ro")]}


def the_files_are_these_and_no_others(scene):
    listed = ["find", ".", "-printf", "%M %p %U %G %Ts\n"]
    found = subprocess.run(listed, cwd=scene.root, check=True, capture_output=True, text=True).stdout
    expected = [f"{line} 0 0 {CREATED}" for line in EXPECTED.splitlines()]
    assert sorted(found.splitlines()) == sorted(expected), found


def the_program_is_static_and_small(scene):
    program = scene.root / "supercargo"
    elf = subprocess.run(
        ["readelf", "--wide", "--program-headers", "--dynamic", program], check=True, capture_output=True, text=True
    ).stdout
    assert "INTERP" not in elf and "NEEDED" not in elf, elf
    total = sum(path.stat().st_size for path in scene.root.rglob("*") if path.is_file())
    print(f"    {program.stat().st_size} bytes of {total} in all")
    assert program.stat().st_size < LARGEST_PROGRAM and total < LARGEST_IMAGE


def the_licences_name_what_is_linked(scene):
    text = (scene.root / "usr/share/licenses/supercargo/THIRD-PARTY").read_text()
    for name in ["GNU C Library", "Rust standard library", "tokio", "aws-lc-sys", "libsqlite3-sys"]:
        assert f"\n== {name} " in text, name
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text


def it_says_its_version(scene):
    manifest = (SOURCES / "Cargo.toml").read_text()
    version = manifest.split('version = "', 1)[1].split('"', 1)[0]
    ran = scene.containers.run("version", "--version")
    assert (ran.code, ran.output) == (0, f"supercargo {version}\n"), ran.output


def serve_keeps_its_database_in_a_volume(scene):
    volume = scene.folder / "volume"
    volume.mkdir()
    os.chown(volume, USER, USER)
    certificate, key = scene.authority.issue("service", f"DNS:{SERVICE}", f"DNS:{ALIAS}")
    # The kubelet makes the files of a Secret readable by the pod's group.
    os.chown(key, 0, USER)
    key.chmod(0o440)
    bootstrap = scene.file("bootstrap.yaml", BOOTSTRAP)
    scene.serve = scene.containers.start(
        "serve",
        *("serve", "--listen", "127.0.0.1:8443", "--admin-listen", "127.0.0.1:8081"),
        *("--tls-cert", "/etc/supercargo/tls.crt", "--tls-key", "/etc/supercargo/tls.key"),
        *("--database", "sqlite:/var/lib/supercargo/supercargo.db", "--bootstrap", "/etc/supercargo/bootstrap.yaml"),
        mounts=scene.mounts(
            (volume, "/var/lib/supercargo", "rw"),
            (bootstrap, "/etc/supercargo/bootstrap.yaml", "ro"),
            (scene.folder / "token", "/etc/supercargo/token", "ro"),
            (certificate, "/etc/supercargo/tls.crt", "ro"),
            (key, "/etc/supercargo/tls.key", "ro"),
        ),
    )
    scene.serve.says("^serving on https://127.0.0.1:8443")
    assert (volume / "supercargo.db").stat().st_uid == USER
    assert get(8081, "/readyz") == 200


def it_runs_without_root_or_any_right(scene):
    status = dict(line.split(":\t", 1) for line in scene.serve.proc("status").splitlines() if ":\t" in line)
    assert set(status["Uid"].split() + status["Gid"].split()) == {str(USER)}, status
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}, status
    assert status["NoNewPrivs"] == "1", status
    root = next(line.split() for line in scene.serve.proc("mountinfo").splitlines() if line.split()[4] == "/")
    assert "ro" in root[5].split(","), root


def a_name_is_looked_up_and_the_service_verified(scene):
    ran = scene.report("by-dns", "--ca-file", "/authority.crt", **scene.trusting())
    assert ran.code == 0 and "11 artifacts reported, new snapshot" in ran.output, ran.output
    assert SERVICE in scene.dns.asked, scene.dns.asked


def a_name_of_etc_hosts_is_found_there(scene):
    ran = scene.report("by-hosts", "--ca-file", "/authority.crt", host=ALIAS, **scene.trusting())
    assert ran.code == 0 and "unchanged" in ran.output, ran.output


def a_name_that_nobody_knows_is_said(scene):
    ran = scene.report("unknown", "--ca-file", "/authority.crt", host=ELSEWHERE, **scene.trusting())
    assert ran.code == 6 and ELSEWHERE in ran.output, ran.output
    assert ELSEWHERE in scene.dns.asked, scene.dns.asked


def a_service_that_nobody_vouches_for_is_refused(scene):
    ran = scene.report("untrusted")
    assert ran.code == 6 and "certificate" in ran.output, ran.output


def the_bundle_in_the_image_is_whom_it_trusts(scene):
    path = "etc/ssl/certs/ca-certificates.crt"
    bundle = scene.file("bundle", (scene.root / path).read_text() + scene.authority.certificate.read_text())
    ran = scene.report("by-bundle", mounts=[(bundle, f"/{path}", "ro")])
    assert ran.code == 0 and "unchanged" in ran.output, ran.output


def large_reports_need_no_place_for_temporary_files(scene):
    for generation in range(2):
        listed = {"apiVersion": "v1", "kind": "List", "items": [pod(n, generation) for n in range(5_000)]}
        pods = scene.file(f"pods-{generation}.json", json.dumps(listed))
        ran = scene.report(
            f"large-{generation}", "--ca-file", "/authority.crt", environment="large", pods=pods, **scene.trusting()
        )
        assert ran.code == 0 and "5000 artifacts reported, new snapshot" in ran.output, ran.output + scene.serve.output


def the_agent_watches_a_cluster_as_a_service_account(scene):
    account = scene.folder / "account"
    account.mkdir()
    authority = Authority(account)
    certificate, key = authority.issue("kube-api", "IP:127.0.0.1")
    cluster = KubeApi(token=secrets.token_hex(16), certificate=certificate, key=key)
    scene.file("account/token", cluster.token)
    scene.file("account/ca.crt", authority.certificate.read_text())
    scene.file("account/namespace", "supercargo")
    environments = scene.file("environments.yaml", "environments:\n  - name: prod\n")
    agent = scene.containers.start(
        "agent",
        *("agent", "--config", "/etc/supercargo/environments.yaml", "--listen", "0.0.0.0:8082"),
        *("--ca-file", "/authority.crt"),
        env={**scene.env(), "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"},
        mounts=scene.mounts(
            *scene.trusting()["mounts"],
            *((account / name, f"{SERVICE_ACCOUNT}/{name}", "ro") for name in ("token", "ca.crt", "namespace")),
            (environments, "/etc/supercargo/environments.yaml", "ro"),
        ),
    )
    agent.says("pods listed")
    agent.says("artifacts reported, new snapshot")
    assert [get(8082, path) for path in ("/livez", "/readyz", "/metrics")] == [200] * 3
    assert agent.stop() == 0, agent.output
    assert cluster.seen == [("/api/v1/pods", True)], cluster.seen
    cluster.end()


def serve_ends_when_it_is_asked_to(scene):
    assert scene.serve.stop() == 0, scene.serve.output


CHECKS = [
    the_files_are_these_and_no_others,
    the_program_is_static_and_small,
    the_licences_name_what_is_linked,
    it_says_its_version,
    serve_keeps_its_database_in_a_volume,
    it_runs_without_root_or_any_right,
    a_name_is_looked_up_and_the_service_verified,
    a_name_of_etc_hosts_is_found_there,
    a_name_that_nobody_knows_is_said,
    a_service_that_nobody_vouches_for_is_refused,
    the_bundle_in_the_image_is_whom_it_trusts,
    large_reports_need_no_place_for_temporary_files,
    the_agent_watches_a_cluster_as_a_service_account,
    serve_ends_when_it_is_asked_to,
]


def pod(n, generation):
    """A running pod with an image that no other has."""
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
    # crun can do without control groups, but not where both of their versions are mounted.
    if Path("/sys/fs/cgroup/unified").exists():
        subprocess.run(["mount", "--types", "tmpfs", "none", "/sys/fs/cgroup"], check=True)
    main(Path(sys.argv[1]))
