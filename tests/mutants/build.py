"""A copy of the tree with a separate build, whose tests run one at a time in a sandbox."""
import collections
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess

MEMORY = 8 << 30  # limit of a test's address space in bytes: a fault in a size must not exhaust the machine
FILE_SIZE = 16 << 30  # some tests write sparse files
MOST_USERS = 40  # objects that depend on a file: a header with more would take minutes, twice
BUILD_LIMIT = 900  # seconds


def run(command, limit, env=None, cpu=None):
    """Returns the exit code (None after the time limit) and output; kills all child processes. cpu: limit of CPU
    seconds of a process, which also limits memory and file sizes."""

    def bound():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cpu is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))

    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=env, preexec_fn=bound, start_new_session=True)
    try:
        output = process.communicate(timeout=limit)[0]
        code = process.returncode
    except subprocess.TimeoutExpired:
        code, output = None, b""
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return code, output.decode(errors="replace")


def can_confine():
    """Returns whether a process may create a mount namespace."""
    return shutil.which("unshare") is not None and run(["unshare", "-m", "true"], 10)[0] == 0


class Build:
    def __init__(self, source, work):
        self.source = source
        self.tree = os.path.join(work, "tree")
        self.build = os.path.join(work, "build")
        self.confined = can_confine()
        self.hashes = {}
        self.env = dict(os.environ, CCACHE_BASEDIR=self.tree, CCACHE_NOHASHDIR="1")

    def copy(self):
        """Updates the copy; equal files keep their times, so that little is rebuilt."""
        listed = subprocess.check_output(["git", "-C", self.source, "ls-files", "-coz", "--exclude-standard"],
                                         text=True)
        wanted = {name for name in listed.split("\0") if name and os.path.isfile(os.path.join(self.source, name))}
        for folder, _, names in os.walk(self.tree):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in wanted:
                    os.remove(path)
        for name in wanted:
            source, target = os.path.join(self.source, name), os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read():
                shutil.copyfile(source, target)
                shutil.copymode(source, target)

    def configure(self):
        """Creates an optimised build with INLAY_CHECK(), and without warnings, because compilers warn about half of the
        faults."""
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DINLAY_TESTS=ON", "-DINLAY_CHECKS=ON", "-DCMAKE_C_FLAGS=-w -Wno-error"]
        if shutil.which("ccache"):
            options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
        code, output = run(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", *options], BUILD_LIMIT, self.env)
        if code != 0:
            raise SystemExit("mutants: the copy in %s cannot be configured:\n%s" % (self.tree, output[-2000:]))

    def make(self, targets):
        code, output = run(["ninja", "-C", self.build, "-j", "2", *targets], BUILD_LIMIT, self.env)
        return code == 0, output

    def learn(self):
        """Finds the files in which faults can be planted, the libraries, and the tests with their programs."""
        lines = subprocess.check_output(["ninja", "-C", self.build, "-t", "targets", "all"], text=True).splitlines()
        self.products = [line.split(":")[0] for line in lines
                         if re.match(r"(lib/.*\.(a|so|so\.[\d.]+)|bin/inlay|libexec/.*|samples/.*\.so): \w*LINKER", line)]
        deps = subprocess.check_output(["ninja", "-C", self.build, "-t", "deps"], text=True)
        users = collections.Counter(os.path.relpath(os.path.join(self.build, m), self.tree)
                                    for m in re.findall(r"^    (.*)$", deps, re.M))
        self.used = {name for name, count in users.items() if count <= MOST_USERS}
        listed = subprocess.check_output(["ctest", "--test-dir", self.build, "--show-only=json-v1"], text=True)
        self.tests = {}
        for test in json.loads(listed)["tests"]:
            program = test["command"][0] if "command" in test else ""
            inside = os.path.relpath(program, self.build) if program.startswith(self.build) else None
            self.tests[test["name"]] = inside

    def test(self, name, limit, cpu):
        """Returns '' if the test passes, or else the outcome in one word."""
        command = ["ctest", "--test-dir", self.build, "-R", "^%s$" % name, "--timeout", str(int(limit)),
                   "--output-on-failure", "--no-tests=error"]
        if self.confined:  # everything except the build is read-only, and /tmp is private
            script = ('mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,bind,ro / && '
                      'mount -t tmpfs -o size=2g,mode=1777 none /tmp && cd "$0" && exec "$@"')
            command = ["unshare", "-m", "sh", "-c", script, self.build, *command]
        code, output = run(command, limit + 10, self.env, int(cpu))
        if code == 0:
            return "", output
        return ("runs on" if code is None or "***Timeout" in output else "fails"), output

    def changed(self):
        """Returns the libraries and programs that changed since the last call of remember()."""
        return [p for p in self.products if self.hashes.get(p) != self.digest(p)]

    def remember(self):
        self.hashes = {p: self.digest(p) for p in self.products}

    def digest(self, product):
        path = os.path.join(self.build, product)
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return hashlib.sha1(file.read()).hexdigest()

    def read(self, name):
        with open(os.path.join(self.tree, name), encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, name, text):
        with open(os.path.join(self.tree, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
