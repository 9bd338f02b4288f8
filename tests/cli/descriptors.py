#!/usr/bin/env python3
"""With every limit of open files, from a few to enough, the command line, the library and the server work, or name the
descriptors as the reason; the plugins that could not be opened meanwhile are loaded again afterwards.

  descriptors.py INLAY LIBINLAY [INLAY_SERVE]"""
import http.client
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

from verb_lines import save_model

INLAY, LIBINLAY, *SERVE = (os.path.abspath(a) for a in sys.argv[1:4])
FEWEST, MOST, REASON = 4, 80, "Too many open files"
ENOUGH = 4  # as many limits that work end a sweep

# Creates a session with the limit of its argument; prints the class of a failure, and its text.
LIBRARY = """
import ctypes, resource, sys
class Diag(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint64), ("code", ctypes.c_int32), ("error_class", ctypes.c_uint32),
                ("text", ctypes.c_char * 512), ("node", ctypes.c_char * 128), ("tensor", ctypes.c_char * 128)]
library, limit, diag, session = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), Diag(ctypes.sizeof(Diag)), ctypes.c_void_p()
options = ctypes.c_void_p()
assert library.inlay_options_create(ctypes.byref(options), None) == 0
assert library.inlay_options_load_environment(options, None) == 0
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
status = library.inlay_session_create(b"m.onnx", options, ctypes.byref(session), ctypes.byref(diag))
print(status, diag.error_class, diag.text.decode())
"""


def limits():
    """Limits until several in a row were enough; send() whether each was."""
    good = 0
    for limit in range(FEWEST, MOST):
        good = good + 1 if (yield limit) else 0
        yield None
        if good == ENOUGH:
            return
    raise AssertionError(f"no session with {MOST} descriptors")


class Descriptors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        save_model("m.onnx", "y")
        self.environment = dict(os.environ, HOME=folder.name, TMPDIR=folder.name, LC_ALL="C",
                                INLAY_CACHE_DIR=folder.name + "/cache", XDG_CONFIG_HOME=folder.name)

    def sweep(self, attempt):
        """attempt(limit): None if it worked, or else the message."""
        outcomes, sweep = {}, limits()
        for limit in sweep:
            outcomes[limit] = attempt(limit)
            if outcomes[limit] is not None:
                self.assertIn(REASON, outcomes[limit], f"{limit} descriptors")
            sweep.send(outcomes[limit] is None)
        failed = [limit for limit, text in outcomes.items() if text is not None]
        self.assertTrue(failed, "every limit was enough")
        self.assertTrue(any("plugin " in outcomes[limit] for limit in failed), "no plugin was affected")

    def check_nothing_is_remembered(self):
        done = subprocess.run([INLAY, "providers", "--json"], capture_output=True, text=True, env=self.environment)
        for file in json.loads(done.stdout)["files"]:
            self.assertFalse("crash" in (file["outcome"] or "") or REASON in (file["reason"] or ""), file)

    def run_verb(self, limit):
        done = subprocess.run([INLAY, "run", "m.onnx", "--quiet"], capture_output=True, text=True, env=self.environment,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        if done.returncode == 0:
            return None
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_run(self):
        self.sweep(self.run_verb)
        self.check_nothing_is_remembered()

    def test_run_without_cache(self):
        self.environment["INLAY_CACHE_DIR"] = ""
        self.sweep(self.run_verb)

    def test_library(self):
        def attempt(limit):
            done = subprocess.run([sys.executable, "-c", LIBRARY, LIBINLAY, str(limit)], capture_output=True, text=True,
                                  env=self.environment, check=True)
            status, error_class, text = done.stdout.rstrip("\n").split(" ", 2)
            return None if status == "0" else text

        self.sweep(attempt)
        self.check_nothing_is_remembered()

    @unittest.skipUnless(SERVE, "no server")
    def test_server(self):
        os.makedirs("models/m/1")
        os.rename("m.onnx", "models/m/1/model.onnx")
        pathlib.Path("admins").write_text("admin-0123456789abcdef\n")
        os.chmod("admins", 0o600)
        server = subprocess.Popen([SERVE[0], "models", "--no-config", "--port", "0", "--grpc-port", "-1", "--warmup", "0",
                                   "--admin-token-file", "admins"], stderr=open("log", "w"), env=self.environment)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        until = time.monotonic() + 60
        while ": ready" not in (log := pathlib.Path("log").read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        client = http.client.HTTPConnection("127.0.0.1", int(re.search(r"http://127\.0\.0\.1:(\d+)", log)[1]), timeout=60)
        client.connect()  # later ones would lack a descriptor

        def ask(path):
            client.request("POST", f"/v2/repository/models/m/{path}", body="{}",
                           headers={"Authorization": "Bearer admin-0123456789abcdef"})
            answer = client.getresponse()
            return answer.status, answer.read().decode()

        self.assertEqual(ask("unload")[0], 200)
        whole = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{server.pid}/fd"))

        def attempt(limit):
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + limit - FEWEST, whole[1]))
            status, text = ask("load")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, whole)
            if status == 200:
                self.assertEqual(ask("unload")[0], 200)
                return None
            self.assertEqual(status, 503, text)
            return text

        self.sweep(attempt)
        self.assertEqual(ask("load")[0], 200)
        server.terminate()
        self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
