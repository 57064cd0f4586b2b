"""Runs the image's program as a kubelet would under Pod Security "restricted": as the image's user, with a read-only
root file system, without capabilities, and without privilege escalation.

The containers share this process's network namespace, which __main__ creates.
"""

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

USER = 65532


class Containers:
    """Containers of one image with the files in `rootfs`."""

    def __init__(self, rootfs, folder):
        self.folder = Path(folder)
        self.running = []
        # crun creates missing mount points in the root file system, where a kubelet uses a layer.
        self.rootfs = self.folder / "root"
        shutil.copytree(rootfs, self.rootfs)

    def crun(self, *arguments):
        return ["crun", "--root", str(self.folder / "state"), "--cgroup-manager", "disabled", *arguments]

    def start(self, name, *arguments, env=(), mounts=()):
        """Starts a container. `mounts` are (source, path in the container, "ro" or "rw")."""
        bundle = self.folder / name
        bundle.mkdir()
        config = configuration(self.rootfs, ["/supercargo", *arguments], dict(env), mounts)
        (bundle / "config.json").write_text(json.dumps(config))
        container = Container(self, name, self.crun("run", "--bundle", str(bundle), name))
        self.running.append(container)
        return container

    def run(self, name, *arguments, **how):
        """Runs a container until it exits, and returns it with `code` and `output`."""
        container = self.start(name, *arguments, **how)
        container.wait()
        return container

    def end(self):
        for container in self.running:
            if container.process.poll() is None:
                subprocess.run(self.crun("delete", "--force", container.name), check=False)
                container.process.wait()


class Container:
    def __init__(self, containers, name, command):
        self.containers, self.name = containers, name
        self.lines, self.code = [], None
        self.condition = threading.Condition()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    @property
    def output(self):
        return "".join(self.lines)

    def read(self):
        for line in self.process.stdout:
            with self.condition:
                self.lines.append(line)
                self.condition.notify_all()
        with self.condition:
            self.code = self.process.wait()
            self.condition.notify_all()

    def wait(self, timeout=60):
        self.reader.join(timeout)
        assert self.code is not None, f"{self.name} did not exit:\n{self.output}"
        return self.code

    def wait_for(self, pattern, timeout=60):
        """Waits for a line of output that matches."""

        def said():
            return next((line for line in self.lines if re.search(pattern, line)), None)

        with self.condition:
            self.condition.wait_for(lambda: said() or self.code is not None, timeout)
            line = said()
        assert line, f"{self.name} did not print {pattern!r}:\n{self.output}"
        return line

    def stop(self):
        """Sends SIGTERM, as a kubelet does, and returns the exit code."""
        subprocess.run(self.containers.crun("kill", self.name, "TERM"), check=True)
        return self.wait()

    def proc(self, file):
        """A file in /proc of the first process."""
        state = subprocess.run(
            self.containers.crun("state", self.name), check=True, capture_output=True, text=True
        )
        return Path("/proc", str(json.loads(state.stdout)["pid"]), file).read_text()


def configuration(rootfs, arguments, env, mounts):
    """config.json of the OCI runtime specification."""
    nothing = {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")}
    return {
        "ociVersion": "1.0.0",
        "root": {"path": str(rootfs), "readonly": True},
        "process": {
            "user": {"uid": USER, "gid": USER},
            "cwd": "/",
            "args": arguments,
            "env": [f"{key}={value}" for key, value in env.items()],
            "capabilities": nothing,
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            *(
                {"destination": path, "type": "bind", "source": str(source), "options": ["bind", access]}
                for source, path, access in mounts
            ),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
    }
