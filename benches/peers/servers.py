"""Starting and stopping what is measured: on loopback, on free ports, by their own process ids."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WORK = ROOT / "target" / "peers"
PATIENCE = 15.0

# What apt-get calls the programs of the peers.
PACKAGES = {
    "nginx": "nginx libnginx-mod-nchan",
    "nats-server": "nats-server",
    "mosquitto": "mosquitto",
    "redis-server": "redis-server",
    "node": "nodejs npm",
    "openssl": "openssl",
}


class Missing(Exception):
    """A peer cannot run here; says what to install."""


def program(name):
    """Where a program is; programs for root may be outside of PATH."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if not found:
        raise Missing(f"{name} is not installed (Debian: apt-get install {PACKAGES[name]})")
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descendants(pid):
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += descendants(int(child))
    return found


class Server:
    """One running server; use it with `with`."""

    label = "?"
    version = "?"
    # Watchers that the idle measurement gives it.
    idle_watchers = 16000
    # Whether it is reached over TLS of its own.
    secure = False

    def __init__(self):
        self.process = None
        self.port = free_port()
        self.port2 = free_port()
        self.folder = WORK / f"run-{os.getpid()}-{type(self).__name__.lower()}"

    def command(self):
        raise NotImplementedError

    def papers(self):
        """A certificate with a key on P-256, and the key: files, made once."""
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        if not cert.exists():
            subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(cert)],
                           check=True, capture_output=True)
        return str(cert), str(key)

    def at(self):
        """Where the load finds it."""
        if not self.secure:
            return ["--url", f"http://127.0.0.1:{self.port}"]
        return ["--url", f"https://127.0.0.1:{self.port}", "--ca", self.papers()[0]]

    def load(self):
        """The load's command line against this server."""
        raise NotImplementedError

    def pids(self):
        return descendants(self.process.pid)

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        try:
            self.await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def await_ready(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise Missing(f"{self.label} does not start:\n{said}") from None
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def configured(self, name, **more):
        """A configuration file of this folder, filled in."""
        text = (HERE / name).read_text()
        values = {"DIR": self.folder, "PORT": self.port, "PORT2": self.port2, **more}
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
        path = self.folder / name
        path.write_text(text)
        return str(path)


def said_version(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout + run.stderr).strip()


class Tipcast(Server):
    label = "Tipcast"

    def __init__(self, redis=None):
        super().__init__()
        self.redis = redis
        # Another build may be measured with the same load.
        self.binary = os.environ.get("TIPCAST_BINARY", str(TARGET / "release" / "tipcast"))
        self.version = said_version([self.binary, "--version"]).split()[-1]

    def command(self):
        store = ["--redis", self.redis] if self.redis else ["--data-dir", str(self.folder / "data")]
        command = [self.binary, "--listen", f"127.0.0.1:{self.port}", *store]
        if self.secure:
            cert, key = self.papers()
            command = ["env", f"TIPCAST_HTTP__TLS_CERT={cert}", f"TIPCAST_HTTP__TLS_KEY={key}", *command]
        return command

    def load(self):
        return [str(TARGET / "release" / "tipcast-bench"), *self.at()]


class SecureTipcast(Tipcast):
    secure = True


class Peer(Server):
    dialect = "plain"

    def load(self):
        load = TARGET / "release" / "examples" / "peer_load"
        return [str(load), "--dialect", self.dialect, *self.at()]


class Nchan(Peer):
    label = "nchan (nginx)"
    workers = 1

    def command(self):
        nginx = program("nginx")
        modules = next((p for p in ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules"]
                        if Path(p, "ngx_nchan_module.so").exists()), None)
        if not modules:
            raise Missing(f"nginx has no nchan (Debian: apt-get install {PACKAGES['nginx']})")
        package = said_version(["dpkg-query", "-W", "-f", "${Version}", "libnginx-mod-nchan"])
        self.version = package.split(":")[-1].split("+")[0].split("-")[0] or "?"
        secure = ""
        if self.secure:
            cert, key = self.papers()
            secure = f"ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;"
        conf = self.configured("nginx.conf", MODULES=modules, WORKERS=self.workers, SECURE=secure,
                               SSL="ssl" if self.secure else "")
        return [nginx, "-p", str(self.folder), "-c", conf]


class SecureNchan(Nchan):
    secure = True


class UWebSockets(Peer):
    """Built from the sources that the variable UWEBSOCKETS leads to, once per version and compiler."""

    label = "uWebSockets"
    FLAGS = ["-O3", "-flto=auto", "-DLIBUS_NO_SSL", "-DUWS_NO_ZLIB"]

    def command(self):
        given = os.environ.get("UWEBSOCKETS")
        if not given:
            raise Missing("its sources are not given (UWEBSOCKETS=/path/to/uWebSockets, with uSockets in it or beside it)")
        sources = Path(given).resolve()
        sockets = next((at for at in (sources / "uSockets", sources.parent / "uSockets")
                        if (at / "src" / "libusockets.h").exists()), None)
        if not (sources / "src" / "App.h").exists() or not sockets:
            raise Missing(f"{sources} is not uWebSockets with uSockets in it or beside it")
        self.version = said_version(["git", "-C", str(sources), "describe", "--tags", "--always"]).splitlines()[0]
        return [str(self.build(sources, sockets)), str(self.port)]

    def build(self, sources, sockets):
        cc, cxx = (os.environ.get(name) or next((c for c in either if shutil.which(c)), None)
                   for name, either in (("CC", ("gcc", "clang")), ("CXX", ("g++", "clang++"))))
        if not cc or not cxx:
            raise Missing("no compiler for C++ (Debian: apt-get install g++)")
        WORK.mkdir(parents=True, exist_ok=True)
        built, notes = WORK / "uwebsockets", WORK / "uwebsockets.built"
        script = HERE / "uwebsockets.cpp"
        recipe = repr([str(sources), self.version, cxx, self.FLAGS, script.read_text()])
        if built.exists() and notes.exists() and notes.read_text() == recipe:
            return built
        objects = WORK / "uwebsockets-objects"
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir()
        parts = [str(part) for folder in ("", "eventing", "crypto") for part in (sockets / "src" / folder).glob("*.c")]
        include = [f"-I{sockets / 'src'}", f"-I{sources / 'src'}"]
        self.compile([cc, *self.FLAGS, *include, "-c", *parts], objects)
        objs = [str(part) for part in objects.glob("*.o")]
        self.compile([cxx, *self.FLAGS, "-std=c++20", *include, str(script), *objs, "-o", str(built)], objects)
        shutil.rmtree(objects)
        notes.write_text(recipe)
        return built

    def compile(self, command, folder):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"it could not be compiled: {done.stderr.strip()[-500:]}")


class Nats(Peer):
    label = "NATS WebSocket"
    dialect = "nats"

    def command(self):
        nats = program("nats-server")
        self.version = said_version([nats, "--version"]).split("v")[-1]
        return [nats, "-c", self.configured("nats.conf")]

    def load(self):
        return super().load() + ["--publish-at", f"127.0.0.1:{self.port2}"]


class Mosquitto(Peer):
    label = "Mosquitto WebSocket"
    dialect = "mqtt"
    idle_watchers = 8000

    def command(self):
        mosquitto = program("mosquitto")
        self.version = said_version([mosquitto, "-h"]).split("version ")[-1].split()[0]
        return [mosquitto, "-c", self.configured("mosquitto.conf")]

    def load(self):
        return super().load() + ["--publish-at", f"127.0.0.1:{self.port2}"]


class Centrifugo(Peer):
    label = "Centrifugo"
    dialect = "centrifugo"
    idle_watchers = 8000

    def command(self):
        found = shutil.which("centrifugo")
        if not found:
            raise Missing("there is no centrifugo on the PATH (github.com/centrifugal/centrifugo/releases)")
        self.version = said_version([found, "version"]).split("v", 1)[-1].split()[0]
        return [found, "-c", self.configured("centrifugo.json")]


class Node(Peer):
    package = "?"
    script = "?"
    idle_watchers = 8000

    def command(self):
        node = program("node")
        packages()
        import json
        self.version = json.loads((WORK / "node_modules" / self.package / "package.json").read_text())["version"]
        # Modules are looked for above the script, so it runs from where they are.
        script = WORK / self.script
        shutil.copy(HERE / self.script, script)
        return [node, str(script), str(self.port)]


class Ws(Node):
    label = "ws (Node)"
    package = "ws"
    script = "ws.mjs"


class SocketIo(Node):
    label = "Socket.IO"
    package = "socket.io"
    script = "socketio.mjs"
    dialect = "socket-io"


class Redis(Server):
    label = "Redis"

    def command(self):
        redis = program("redis-server")
        self.version = said_version([redis, "--version"]).split("v=")[-1].split()[0]
        return [redis, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]


def packages():
    """Brings ws and socket.io from npm, once."""
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    have = WORK / "package.json"
    if have.exists() and have.read_text() == wanted and (WORK / "node_modules").exists():
        return
    npm = shutil.which("npm")
    if not npm:
        raise Missing(f"npm is not installed (Debian: apt-get install {PACKAGES['node']})")
    have.write_text(wanted)
    command = [npm, "install", "--no-audit", "--no-fund", "--silent"]
    if subprocess.run(command, cwd=WORK, check=False).returncode:
        have.unlink()
        raise Missing("npm could not install ws and socket.io; is there a network?")


def install():
    """Installs what is missing, as `make test` does, where that is allowed."""
    wanted = []
    for name in PACKAGES:
        try:
            program(name)
        except Missing:
            wanted += PACKAGES[name].split()
    if shutil.which("nginx", path="/usr/sbin:/usr/bin") and not Path("/usr/lib/nginx/modules/ngx_nchan_module.so").exists():
        wanted.append("libnginx-mod-nchan")
    if not wanted or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    print("installing", *wanted, flush=True)
    quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    # A package that cannot be had is a peer that is left out, and said so.
    for command in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        subprocess.run(["apt-get", "-q", *command], env=quiet, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=False)
