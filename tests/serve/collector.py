#!/usr/bin/python3
"""Spans are sent to a collector with TLS, whose certificate is checked: its authority and its name.
    collector.py INLAY_SERVE WRITE_MODELS

Exit code 77: openssl is not installed."""
import http.client
import http.server
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 60
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})
taken = []


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        taken.append((self.path, self.headers["Host"], message))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):  # of handshakes that the server has ended
        pass


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(folder):
    """Authorities `ours` and `other`, and certificates of `ours`: for localhost, and for another name."""
    for name in ("ours", "other"):
        openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name, host in (("good", "DNS:localhost,IP:127.0.0.1"), ("named", "DNS:collector.example")):
        openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(f"subjectAltName={host}\n")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ours.pem", "-CAkey", "ours.key", "-CAcreateserial",
                "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    (folder / "text").write_text("no certificate\n")


def collect(folder, name):
    """A collector with this certificate, and its port."""
    collector = Quiet(("127.0.0.1", 0), Collector)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    collector.socket = context.wrap_socket(collector.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    return collector, collector.server_address[1]


class Server:
    def __init__(self, program, folder, *flags):
        self.log = folder / "log"
        with open(self.log, "w") as to:
            self.process = subprocess.Popen([program, str(folder / "models"), "--no-config", "--port", "0", "--grpc-port",
                                             "-1", "--trace-sample", "1", *flags], stderr=to)
        self.wait(": ready")
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text()).group(1))
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)

    def wait(self, part):
        for _ in range(SECONDS * 20):
            text = self.log.read_text()
            if part in text:
                return
            assert self.process.poll() is None, text
            time.sleep(0.05)
        sys.exit(f"no '{part}' in the log: {text}")

    def infer(self):
        self.connection.request("POST", "/v2/models/twice/infer", BODY)
        answer = self.connection.getresponse()
        assert (answer.status, json.loads(answer.read())["outputs"][0]["data"]) == (200, [2, 4, 6])

    def metric(self, name):
        self.connection.request("GET", "/metrics")
        text = self.connection.getresponse().read().decode()
        return int(float(re.search(f"^{re.escape(name)} (.*)$", text, re.M).group(1)))

    def end(self):
        self.connection.close()
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0, self.log.read_text()


def check_taken(program, folder, host):
    collector, port = collect(folder, "good")
    server = Server(program, folder, "--trace-endpoint", f"https://{host}:{port}", "--trace-ca", str(folder / "ours.pem"))
    taken.clear()
    sent = 0
    for _ in range(SECONDS):  # a message that takes a second on a busy machine is not sent again
        server.infer()
        time.sleep(0.6)
        sent = server.metric('inlay_spans_total{result="sent"}')
        if sent >= 3:
            break
    server.end()
    spans = [span["name"] for _, _, message in taken for resource in message["resourceSpans"]
             for scope in resource["scopeSpans"] for span in scope["spans"]]
    assert 3 <= sent <= spans.count("infer twice"), (sent, spans, server.log.read_text())
    assert {(path, named) for path, named, _ in taken} == {("/v1/traces", f"{host}:{port}")}
    assert "its certificate is refused" not in server.log.read_text()
    collector.shutdown()


def check_refused(program, folder, name, authority, part):
    collector, port = collect(folder, name)
    server = Server(program, folder, "--trace-endpoint", f"https://localhost:{port}/v1/traces", *authority)
    taken.clear()
    server.infer()
    server.wait(f"https://localhost:{port}/v1/traces does not take spans, which are dropped: its certificate is refused: ")
    assert re.search(part, server.log.read_text()), server.log.read_text()
    assert server.metric('inlay_spans_total{result="failed"}') >= 1
    assert not taken
    server.end()
    collector.shutdown()


def check_wrong(program, folder, flags, part):
    """Settings that the server does not start with."""
    result = subprocess.run([program, str(folder / "models"), "--no-config", "--port", "0", *flags], text=True,
                            stderr=subprocess.PIPE, timeout=SECONDS, check=False)
    assert result.returncode == 2 and part in result.stderr, (result.returncode, result.stderr)


def main():
    if shutil.which("openssl") is None:
        print("skipped: openssl is not installed")
        return 77
    program, writer = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([writer, str(folder / "models")], check=True)
        make_certificates(folder)
        ours = ("--trace-ca", str(folder / "ours.pem"))
        check_taken(program, folder, "localhost")
        check_taken(program, folder, "127.0.0.1")
        check_refused(program, folder, "good", ("--trace-ca", str(folder / "other.pem")), "issuer is unknown")
        check_refused(program, folder, "good", (), "issuer is unknown")
        check_refused(program, folder, "named", ours, "name in the certificate does not match")
        check_wrong(program, folder, ("--trace-endpoint", "https://localhost", "--trace-ca", str(folder / "text")), "trace_ca")
        check_wrong(program, folder, ("--trace-endpoint", "https://localhost", "--trace-ca", str(folder / "none")), "none")
        check_wrong(program, folder, ("--trace-endpoint", "http://localhost", *ours), "trace_ca needs TLS")
        check_wrong(program, folder, ours, "trace_ca needs trace_endpoint")
        check_wrong(program, folder, ("--trace-endpoint", "ftp://localhost"), "is not http[s]://HOST[:PORT][/PATH]")
    return 0


sys.exit(main())
