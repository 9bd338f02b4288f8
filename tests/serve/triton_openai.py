#!/usr/bin/python3
"""Tests of Triton's OpenAI front end with this server.
    triton_openai.py INLAY_SERVE WRITE_MODELS TESTS

TESTS is python/openai/tests of https://github.com/triton-inference-server/server, WRITE_MODELS the program
serve_write_models of a build. The tests of chats, texts and the model list run with a client of this server in place of
that of their own application; where they expect FastAPI's 422 for a request that is not valid, 400 counts as well, as
OpenAI's own service answers. DIFFERENT has the tests that expect what inlay does otherwise, with the reason. The last
line has the counts; exit code 1: another test failed. Needs python3-pytest."""
import fnmatch
import json
import os
import pathlib
import re
import shutil
import string
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

FILES = "test_chat_completions.py", "test_completions.py", "test_observability.py"
DIFFERENT = {
    "*[[]logit_bias-*": "logit_bias is supported",
    "*_multiple_choices*": "more than one choice is supported",
    "*[[]max_tokens--1]": "-1 sets no limit, as vLLM and llama-server have it",
    "*[[]max_completion_tokens--1]": "the same",
    "*_max_completion_tokens_precedence": "max_tokens and max_completion_tokens that differ are refused",
    "*_completions_no_model": "a server with one model needs no name of it",
    "*_completions_logprobs_validation": "more log probabilities are allowed",
    "*_completions_logprobs_zero": "0 gives the log probabilities of the tokens alone, as OpenAI documents",
    "*_top_logprobs_without_logprobs[[]0]": "top_logprobs 0 asks for nothing",
    "*_top_logprobs_without_logprobs[[]5]": "words of the message",
    "*_top_logprobs_validation": "words of the message",
    "*_no_message": "words of the message",
    "*_empty_message": "words of the message",
    "*.TestChatCompletionsTokenizers.*": "tokenizers of the hub, and of other settings of their server",
    "*.TestObservability.*": "names of metrics, models and paths of Triton",
}
# Needed by the tests' imports; the client speaks to the server.
STUBS = {
    "fastapi/__init__.py": "",
    "fastapi/testclient.py": '''
import http.client, json, os


class Code(int):
    """An HTTP status; FastAPI's 422 stands for 400, too."""

    def __eq__(self, other):
        return int(self) == other or (int(self) == 400 and other == 422)

    __hash__ = int.__hash__


class Response:
    def __init__(self, status, data):
        self.status_code, self.text = Code(status), data.decode()

    def json(self):
        value = json.loads(self.text)
        if isinstance(value, dict) and "error" in value:
            value["detail"] = value["error"]["message"]
        return value


class TestClient:
    def __init__(self, app=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *what):
        pass

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection(os.environ["SERVER"], timeout=60)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return Response(answer.status, answer.read())

    def get(self, path):
        return self.send("GET", path)

    def post(self, path, json=None):
        return self.send("POST", path, __import__("json").dumps(json))
''',
    "tritonserver.py": "class Server:\n    pass\n",
    "tests/__init__.py": "",
    "tests/utils.py": '''
class Nothing:
    def stop(self):
        pass


def setup_server(*more, **named):
    return Nothing()


def setup_fastapi_app(*more, **named):
    pass
''',
    "tests/conftest.py": '''
import pytest
from fastapi.testclient import TestClient

for name, value in {"backend": "vllm", "model": "words", "model_repository": "", "tokenizer_model": "",
                    "prompt": "What is machine learning?",
                    "messages": [{"role": "user", "content": "What is machine learning?"}]}.items():
    globals()[name] = pytest.fixture(scope="session", name=name)(lambda value=value: value)


@pytest.fixture(scope="class")
def fastapi_client_class_scope():
    return TestClient()
''',
}


def write_models(writer, folder):
    """A decoder with random weights, most of whose tokens are words."""
    model = folder / "models" / "words"
    (model / "1").mkdir(parents=True)
    subprocess.run([writer, str(folder), "decoders"], check=True)
    (folder / "counted.onnx").rename(model / "1" / "model.onnx")
    letters = [*string.ascii_letters, "?", ".", ",", ":", "\u0120"]
    words = letters + [f"\u0120w{i}" for i in range(128 - len(letters))]
    (model / "tokenizer.json").write_text(json.dumps(
        {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
         "decoder": {"type": "ByteLevel"}, "added_tokens": [],
         "model": {"type": "BPE", "merges": [], "vocab": {word: i for i, word in enumerate(words)}}}))
    (model / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{% for one in messages %}{{ one.role }}: {{ one.content }} {% endfor %}"}))
    return folder / "models"


def start(program, models, log):
    process = subprocess.Popen([program, str(models), "--no-config", "--port", "0", "--grpc-port", "-1"],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        log.write(line)
        if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
            address = found.group(1)
        if ": ready" in line:
            return process, address
    sys.exit("the server does not start")


def main():
    program, writer, tests = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as place, open(os.devnull, "w", encoding="utf-8") as log:
        place = pathlib.Path(place)
        process, address = start(program, write_models(writer, place), log)
        for name, text in STUBS.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(text)
        for name in FILES:
            shutil.copy(tests / name, place / "tests")
        ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml",
                              "result.xml", *(f"tests/{name}" for name in FILES)], cwd=place, capture_output=True,
                             text=True, check=False,
                             env={**os.environ, "SERVER": address, "PYTHONDONTWRITEBYTECODE": "1"})
        process.terminate()
        process.wait()
        if not (place / "result.xml").exists():
            sys.exit(ran.stdout + ran.stderr)
        counts = {"passed": 0, "different": 0, "failed": 0, "skipped": 0}
        for case in xml.etree.ElementTree.parse(place / "result.xml").iter("testcase"):
            name = f"{case.get('classname').split('.', 1)[-1]}.{case.get('name')}"
            result = "skipped" if case.find("skipped") is not None else "passed"
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                result = "different" if any(fnmatch.fnmatchcase(name, known) for known in DIFFERENT) else "failed"
            if result == "failed":
                print(f"{name}: {wrong.get('message', '').splitlines()[0][:300]}")
            counts[result] += 1
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return counts["failed"] > 0 or counts["passed"] == 0


if __name__ == "__main__":
    sys.exit(main())
