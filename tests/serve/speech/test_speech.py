"""POST /v1/audio/transcriptions and /v1/audio/translations: tokens, texts, times and refusals, compared with a small
Whisper in numpy (whisper.py)."""
import concurrent.futures
import ctypes
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
import zlib

try:
    import numpy as np
    import onnx  # noqa: F401
except ImportError:
    raise SystemExit(77)

import whisper
from whisper import RATE, text_of

CLI, SERVE, DOOR = (os.environ[name] for name in ("INLAY", "INLAY_SERVE", "SPEECH_DOOR"))
MODEL = whisper.Model(3)


class Server:
    def __init__(self, *args):
        self.process = subprocess.Popen([SERVE, *args, "--no-config", "--port", "0", "--grpc-port", "-1"],
                                        stderr=subprocess.PIPE, text=True)
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if "ready" in line:
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.log)
        self.port = int(found.group(1)) if found else 0
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, path, body, kind):
        """(code, Content-Type, body)"""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", body, {"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()

    def send(self, file, task="transcriptions", **fields):
        return self.post(f"v1/audio/{task}", *form(file, {"model": "tiny", **fields}))

    def ask(self, file, **fields):
        code, kind, body = self.send(file, **fields)
        assert code == 200, body
        return json.loads(body) if kind == "application/json" else body.decode()


def form(file, fields):
    """A body of multipart/form-data, and its type."""
    mark = "----------------8d3f"
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, values in fields.items() for value in (values if isinstance(values, list) else [values])]
    if file is not None:
        parts.append(f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a;\\"b\\".wav"\r\n'
                     "Content-Type: audio/wav\r\n\r\n".encode() + file + b"\r\n")
    return b"".join(parts) + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


def samples(seconds, seed=1):
    numbers, t = np.random.default_rng(seed), np.arange(int(seconds * RATE)) / RATE
    waves = [a * np.sin(2 * np.pi * f * t + p) for f, p, a in
             zip(numbers.uniform(100, 3000, 6), numbers.uniform(0, 6, 6), numbers.uniform(0.02, 0.1, 6))]
    return np.round(sum(waves) * (0.5 + 0.5 * np.sin(t * 3)) * 32767).astype(np.int16)


def wav(data, kind=1, bits=16, channels=1, rate=RATE):
    width = channels * bits // 8
    head = struct.pack("<HHIIHH", kind, channels, rate, rate * width, width, bits)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt \x10\0\0\0" + head + b"data" +
            struct.pack("<I", len(data)) + data)


def sndfile(path, sound, form):
    """Writes a file in another format; False: libsndfile is not there, or lacks the format."""
    class Info(ctypes.Structure):
        _fields_ = [("frames", ctypes.c_int64)] + [(name, ctypes.c_int) for name in
                                                   ("rate", "channels", "form", "sections", "seekable")]
    try:
        library = ctypes.CDLL("libsndfile.so.1")
    except OSError:
        return False
    library.sf_open.restype = ctypes.c_void_p
    library.sf_write_short.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    library.sf_close.argtypes = [ctypes.c_void_p]
    file = library.sf_open(path.encode(), 0x20, ctypes.byref(Info(0, RATE, 1, form, 0, 0)))
    if not file:
        return False
    written = library.sf_write_short(file, sound.ctypes.data, len(sound))
    library.sf_close(file)
    return written == len(sound)


SHORT, LONG = samples(5), samples(40)


class Speech(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        for name, shape, more in (("tiny", "merged", {}), ("pair", "pair", {"under": ""}), ("plain", "plain", {}),
                                  ("placed", "merged", {"positions": True}), ("placedpair", "pair", {"positions": True}),
                                  ("english", "merged", {"multilingual": False})):
            MODEL.save(os.path.join(cls.root, name), shape, **more)
        cls.server = Server(cls.root)
        cls.addClassCleanup(cls.server.__exit__)

    def check(self, made, want, language=None):
        """Compares a reply with verbose_json with the language and the segments of the reference."""
        found, segments = want
        self.assertEqual(made["language"], language or found)
        self.assertEqual([one["tokens"] for one in made["segments"]], [one["tokens"] for one in segments])
        self.assertEqual([one["text"] for one in made["segments"]], [text_of(one["tokens"]) for one in segments])
        self.assertEqual(made["text"], "".join(text_of(one["tokens"]) for one in segments).strip(" "))
        for one, other in zip(made["segments"], segments):
            self.assertEqual(one["seek"], other["seek"])
            for name in "start", "end", "avg_logprob", "no_speech_prob":
                self.assertAlmostEqual(one[name], other[name], delta=2e-3, msg=name)

    def test_forms_of_models(self):
        """Merged decoders, pairs, decoders without states, and cache_position have the same texts."""
        want = MODEL.transcribe(SHORT / 32768)
        text = "".join(text_of(one["tokens"]) for one in want[1]).strip(" ")
        self.assertGreater(len(text), 8)
        for name in "tiny", "pair", "plain", "placed", "placedpair":
            made = self.server.ask(wav(SHORT.tobytes()), model=name)
            self.assertEqual(made, {"text": text, "usage": {"type": "duration", "seconds": 5}}, name)
            self.check(self.server.ask(wav(LONG.tobytes()), model=name, response_format="verbose_json"),
                       MODEL.transcribe(LONG / 32768, times=True))

    def test_windows(self):
        """A sound of two windows has times, in every form."""
        want = MODEL.transcribe(LONG / 32768)
        self.assertGreater(len({one["seek"] for one in want[1]}), 1)
        made = self.server.ask(wav(LONG.tobytes()), response_format="verbose_json")
        self.check(made, want)
        self.assertEqual((made["task"], made["duration"]), ("transcribe", 40))
        self.assertEqual(self.server.ask(wav(LONG.tobytes()))["text"], made["text"])

    def test_times(self):
        for seconds in 0.01, 5, 30:
            sound = samples(seconds, 2)
            self.check(self.server.ask(wav(sound.tobytes()), response_format="verbose_json",
                                       **{"timestamp_granularities[]": "segment"}),
                       MODEL.transcribe(sound / 32768, times=True))

    def test_replies(self):
        segments = MODEL.transcribe(LONG / 32768)[1]
        text = "".join(text_of(one["tokens"]) for one in segments).strip(" ")

        def moment(seconds, mark):
            ms = round(seconds * 1000)
            return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"
        lines = [[moment(one[name], mark) for name in ("start", "end") for mark in ",."] +
                 [text_of(one["tokens"]).strip(" ")] for one in segments]
        for name, kind, want in (
                ("text", "text/plain; charset=utf-8", text + "\n"),
                ("srt", "text/plain; charset=utf-8",
                 "".join(f"{i + 1}\n{a} --> {c}\n{e}\n\n" for i, (a, _, c, _, e) in enumerate(lines))),
                ("vtt", "text/vtt; charset=utf-8",
                 "WEBVTT\n\n" + "".join(f"{b} --> {d}\n{e}\n\n" for _, b, _, d, e in lines))):
            made = self.server.send(wav(LONG.tobytes()), response_format=name)
            self.assertEqual(made, (200, kind, want.encode()))

    def test_languages(self):
        for language in whisper.LANGUAGES:
            made = self.server.ask(wav(SHORT.tobytes()), language=language, response_format="verbose_json")
            self.check(made, MODEL.transcribe(SHORT / 32768, language, times=True))
        want = [MODEL.transcribe(sound / 32768, times=True) for sound in (SHORT, LONG)]
        self.assertNotEqual(want[0][0], want[1][0])  # the sounds have different languages
        for sound, one in zip((SHORT, LONG), want):
            self.check(self.server.ask(wav(sound.tobytes()), response_format="verbose_json"), one)
        code, _, body = self.server.send(wav(SHORT.tobytes()), language="xx")
        self.assertEqual(code, 400)
        self.assertIn(b"no language 'xx'", body)

    def test_translations(self):
        made = self.server.ask(wav(SHORT.tobytes()), task="translations", response_format="verbose_json")
        self.assertEqual(made["task"], "translate")
        self.check(made, MODEL.transcribe(SHORT / 32768, task="translate", times=True))
        code, _, body = self.server.send(wav(SHORT.tobytes()), task="translations", language="en")
        self.assertEqual((code, json.loads(body)["error"]["param"]), (400, "language"))
        code, _, body = self.server.send(wav(SHORT.tobytes()), task="translations", model="english")
        self.assertIn(b"translates nothing", body)

    def test_prompts(self):
        for prompt in "abc", "the last words " * 9:
            self.check(self.server.ask(wav(LONG.tobytes()), prompt=prompt, response_format="verbose_json"),
                       MODEL.transcribe(LONG / 32768, prompt=prompt))
        code, _, body = self.server.send(wav(SHORT.tobytes()), prompt="a<|endoftext|>")
        self.assertEqual(code, 400)
        self.assertIn(b"special token", body)

    def test_temperature(self):
        """The same text each time, which is another one than that of temperature 0."""
        made = [self.server.ask(wav(LONG.tobytes()), temperature=t)["text"] for t in (0, 1, 1)]
        self.assertNotEqual(made[0], made[1])
        self.assertEqual(made[1], made[2])

    def test_doubts(self):
        """A text below a threshold is written again at higher temperatures, up to 1; that of a silent window is left out."""
        sound, root = wav(LONG.tobytes()), tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        greedy, hot = (self.server.ask(sound, temperature=t, response_format="verbose_json") for t in (0, 1))
        self.assertNotEqual(greedy["text"], hot["text"])
        means = sorted({one["avg_logprob"] for one in greedy["segments"]})
        ratios = [len(one.encode()) / len(zlib.compress(one.encode())) for one in (greedy["text"], hot["text"])]
        cases = {"good": ((-99, max(ratios) + 9, 1), greedy, 0), "improbable": ((0.1, None, None), hot, 1), "repeated": ((None, 1e-6, None), hot, 1),
                 "silent": ((0.1, None, 0), "", 0), "loud": ((-99, None, 0), greedy, 0), "only": ((None, None, 0), "", 0)}
        for name, (thresholds, _, _) in cases.items():
            MODEL.save(os.path.join(root, name), "merged", thresholds=thresholds)
        with Server(root) as server:
            for name, (_, want, temperature) in cases.items():
                made = server.ask(sound, model=name, response_format="verbose_json")
                self.assertEqual(made["text"], want["text"] if want else "", name)
                self.assertEqual({one["temperature"] for one in made["segments"]}, {temperature} if want else set(), name)
            made = server.ask(sound, model="improbable", temperature=0.7, response_format="verbose_json")
            self.assertEqual({round(one["temperature"], 3) for one in made["segments"]}, {0.9})
        self.assertGreater(len(means), 1)  # of two windows, one is doubted
        MODEL.save(os.path.join(root, "one"), "merged", thresholds=((means[0] + means[1]) / 2, None, None))
        with Server(os.path.join(root, "one")) as server:
            made = server.ask(sound, model="one", response_format="verbose_json")
            self.assertNotIn(made["text"], (greedy["text"], hot["text"]))

    def test_sounds(self):
        """Forms of samples that have the same values have the same text."""
        wide = SHORT.astype(np.int32)
        want = self.server.ask(wav(SHORT.tobytes()))
        bytes24 = (wide << 8).astype("<i4").tobytes()
        for name, file in (("24", wav(b"".join(bytes24[i:i + 3] for i in range(0, len(bytes24), 4)), 1, 24)),
                           ("32", wav((wide << 16).astype("<i4").tobytes(), 1, 32)),
                           ("float", wav((SHORT / 32768).astype("<f4").tobytes(), 3, 32)),
                           ("double", wav((SHORT / 32768).astype("<f8").tobytes(), 3, 64)),
                           ("stereo", wav(np.repeat(SHORT, 2).tobytes(), channels=2)),
                           ("stream", wav(SHORT.tobytes())[:40] + b"\xff\xff\xff\xff" + SHORT.tobytes())):
            self.assertEqual(self.server.ask(file), want, name)
        eight = (SHORT // 256 + 128).astype(np.uint8)
        self.check(self.server.ask(wav(eight.tobytes(), bits=8), response_format="verbose_json"),
                   MODEL.transcribe((eight.astype(float) - 128) / 128, times=True))
        path = os.path.join(self.root, "sound")
        for kind in 0x170002, 0x200060:  # FLAC, Ogg Vorbis
            if not sndfile(path, SHORT, kind):
                continue
            with open(path, "rb") as opened:
                code, _, body = self.server.send(opened.read())
            if b"built without libsndfile" not in body:
                self.assertEqual(code, 200, body)
                self.assertEqual(json.loads(body)["usage"], want["usage"])
                if kind == 0x170002:  # the same samples
                    self.assertEqual(json.loads(body), want)
        for rate in 8000, 44100, 48000:
            made = self.server.ask(wav(samples(5).tobytes(), rate=rate), response_format="verbose_json")
            self.assertAlmostEqual(made["duration"], 5 * RATE / rate, delta=1e-3)

    def test_refused(self):
        good = wav(SHORT.tobytes())
        for fields, parameter in (({"temperature": "2"}, "temperature"), ({"temperature": "warm"}, "temperature"),
                                  ({"response_format": "xml"}, "response_format"), ({"stream": "true"}, "stream"),
                                  ({"timestamp_granularities[]": "word", "response_format": "verbose_json"},
                                   "timestamp_granularities[]"),
                                  ({"timestamp_granularities[]": "segment"}, "timestamp_granularities[]"),
                                  ({"include[]": "logprobs"}, "include[]"), ({"seed": "1"}, "seed"),
                                  ({"model": ["tiny", "tiny"]}, "model"), ({"prompt": "a\0b"}, "prompt")):
            code, _, body = self.server.send(good, **fields)
            self.assertEqual((code, json.loads(body)["error"]["param"]), (400, parameter))
        code, _, body = self.server.send(None)
        self.assertEqual((code, json.loads(body)["error"]["param"]), (400, "file"))
        code, _, body = self.server.send(good, model="none")
        self.assertEqual((code, json.loads(body)["error"]["code"]), (404, "model_not_found"))
        for kind in "application/json", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 71:
            code, _, body = self.server.post("v1/audio/transcriptions", form(good, {})[0], kind)
            self.assertEqual(code, 415, body)
            self.assertIn(b"Content-Type must be multipart/form-data", body)
        for task in "transcriptions", "translations":
            body, kind = form(good, {"model": "tiny"})
            for damaged in (b"", body[:-40], body.replace(b"name=", b"nom="), b"--x",
                            b'--x\r\nContent-Disposition: form-data; name="' + b"n" * 64 + b'"\r\n\r\n\r\n--x--',
                            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 65 + b"--x--"):
                code, _, reply = self.server.post(f"v1/audio/{task}", damaged,
                                                  "multipart/form-data; boundary=x" if b"--x" in damaged else kind)
                self.assertEqual(code, 400, damaged[:80])
                self.assertIn(b"no multipart/form-data", reply)

    def test_damaged_sounds(self):
        good = wav(SHORT[:800].tobytes())
        for file, words in ((b"", b"file: "), (b"RIFF", b"file: "), (wav(b""), b"no samples"),
                            (good[:20], b"cut off"), (wav(b"ab", kind=77), b"not supported"),
                            (wav(b"\0\0", rate=2000000011), b"resampling"), (b"ID3" + bytes(500), b"file: "),
                            (wav(bytes(8000 * 7200), bits=8, rate=8000), b"at most 7200 are read")):
            code, _, body = self.server.send(file)
            self.assertIn(code, (400, 413), body)
            self.assertIn(words, body)
        numbers = random.Random(7)
        codes = set()
        for _ in range(60):  # each is answered, and the server goes on
            file = bytearray(good)
            for _ in range(numbers.randint(1, 4)):
                file[numbers.randrange(44)] = numbers.choice((0, 1, 127, 128, 255, numbers.randrange(256)))
            code, _, body = self.server.send(bytes(file[:numbers.randint(30, len(file))]))
            self.assertIn(code, (200, 400, 413), body)
            codes.add(code)
        self.assertEqual(codes & {200, 400}, {200, 400})

    def test_together(self):
        """Requests at the same time have the texts that they have alone."""
        sounds = [wav(samples(2 + i % 3, i).tobytes()) for i in range(8)]
        want = [self.server.ask(sound) for sound in sounds]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(self.server.ask, sounds)), want)

    def door(self, *args):
        return subprocess.run([DOOR, *args], capture_output=True, text=True, check=False)

    def test_door(self):
        """The functions of inlay/text.h."""
        path = os.path.join(self.root, "sound.wav")
        with open(path, "wb") as file:
            file.write(wav(LONG.tobytes()))
        for name, args, more in (("tiny", [], {}), ("pair", ["de"], {"language": "de"}), ("plain", [], {}),
                                 ("tiny", ["fr", "abc"], {"language": "fr", "prompt": "abc", "task": "translate"})):
            found, segments = MODEL.transcribe(LONG / 32768, **more)
            made = self.door(os.path.join(self.root, name), path, *args)
            self.assertEqual((made.returncode, made.stderr), (0, ""))
            first, *lines = made.stdout.splitlines()
            self.assertEqual(first, f"{found} 40.000 {''.join(text_of(one['tokens']) for one in segments).strip(' ')}")
            self.assertEqual(len(lines), len(segments))
            for line, one in zip(lines, segments):
                begin, end, mean, silent, tokens, text = line.split(" ", 5)
                self.assertEqual(([int(t) for t in tokens.split(",")], text), (one["tokens"], text_of(one["tokens"])))
                for number, part in ((begin, "start"), (end, "end"), (mean, "avg_logprob"), (silent, "no_speech_prob")):
                    self.assertAlmostEqual(float(number), one[part], delta=5e-3)
        for args, words in (((self.root, path), "is not the folder of a model for speech"),
                            ((os.path.join(self.root, "tiny"), os.path.join(self.root, "tiny", "config.json")), "file: "),
                            ((os.path.join(self.root, "tiny"), path, "xx"), "no language 'xx'")):
            made = self.door(*args)
            self.assertEqual(made.returncode, 2)
            self.assertIn(words, made.stderr)
            self.assertEqual(made.stderr.count("\n"), 1)

    def test_verb(self):
        """inlay transcribe, and its refusals."""
        path, folder = os.path.join(self.root, "verb.wav"), os.path.join(self.root, "tiny")
        with open(path, "wb") as file:
            file.write(wav(LONG.tobytes()))

        def run(*args):
            return subprocess.run([CLI, "transcribe", *args, "--no-config"], capture_output=True, text=True, check=False)
        found, segments = MODEL.transcribe(LONG / 32768)
        texts = [text_of(one["tokens"]) for one in segments]
        self.assertEqual(run(folder, path).stdout, "".join(texts).strip(" ") + "\n")
        self.assertEqual(run(folder, path, "--times").stdout, "".join(
            f"{one['start']:.2f}\t{one['end']:.2f}\t{text.removeprefix(' ')}\n" for one, text in zip(segments, texts)))
        made = json.loads(run(folder, path, "--json", "--variant", "fp32").stdout)
        self.assertEqual((made["language"], made["seconds"]), (found, 40))
        self.assertEqual([one["text"] for one in made["segments"]], texts)
        made = json.loads(run(folder, path, "--json", "--language", "fr", "--translate", "--prompt", "abc").stdout)
        self.assertEqual([one["text"] for one in made["segments"]], [
            text_of(one["tokens"]) for one in MODEL.transcribe(LONG / 32768, "fr", "translate", prompt="abc")[1]])
        for args, words in (((folder, path, "--variant", "q4"), "no variant 'q4' of encoder_model"),
                            ((folder, path, "--language", "xx"), "no language 'xx'"), ((folder,), "FOLDER and SOUND"),
                            ((path, path), "is not the folder of a model for speech"), ((folder, folder), "is a directory|cannot be read|Is a directory")):
            made = run(*args)
            self.assertNotEqual(made.returncode, 0)
            self.assertRegex(made.stderr, words)
            self.assertEqual(made.stderr.count("\n"), 1, made.stderr)

    def test_versions(self):
        """A version is a folder with the parts. A signature of the folder includes all of them."""
        root, tiny = tempfile.mkdtemp(), os.path.join(self.root, "tiny")
        self.addCleanup(shutil.rmtree, root)
        models, key, public = (os.path.join(root, name) for name in ("models", "key.pem", "pub.pem"))
        for version in "1", "3":
            shutil.copytree(tiny, os.path.join(models, "tiny", version))
        shutil.copytree(tiny, os.path.join(models, "bare"))
        want = self.server.ask(wav(SHORT.tobytes()))
        with Server(models) as server:
            self.assertEqual(server.ask(wav(SHORT.tobytes())), want)
            self.assertEqual(server.ask(wav(SHORT.tobytes()), model="bare"), want)
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/v2/repository/index", b"{}")) as reply:
                found = [(one["name"], one["version"], one["state"]) for one in json.load(reply)]
            self.assertEqual([one for one in found if one[2] == "READY"], [("bare", "1", "READY"), ("tiny", "3", "READY")])
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        for command in (["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], ["openssl", "pkey", "-in", key, "-pubout", "-out", public]):
            subprocess.run(command, check=True)
        for name in "tiny", "bare":
            with Server(models, "--model-trust", public, "--strict", "0") as server:
                self.assertIn(f"{name}: is not signed", server.log)
            subprocess.run([CLI, "sign", os.path.join(models, name), "--key", key], check=True, capture_output=True)
        for change in None, os.path.join("tiny", "3", "generation_config.json"), os.path.join("bare", "onnx", "decoder_model_merged.onnx"):
            if change:
                with open(os.path.join(models, change), "ab") as file:
                    file.write(b" ")
            with Server(models, "--model-trust", public, "--strict", "0") as server:
                for name in "tiny", "bare":
                    if change is None or (change[:4] == "tiny" and name == "bare"):
                        self.assertEqual(server.ask(wav(SHORT.tobytes()), model=name), want)
                if change:
                    self.assertRegex(server.log, change + ": has changed since it was signed")

    def test_lists(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/v1/models") as reply:
            names = [one["id"] for one in json.load(reply)["data"]]
        self.assertEqual(names, sorted(["english", "pair", "placed", "placedpair", "plain", "tiny"]))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/openapi.json") as reply:
            paths = json.load(reply)["paths"]
        for task in "transcriptions", "translations":
            self.assertEqual(list(paths[f"/v1/audio/{task}"]["post"]["requestBody"]["content"]), ["multipart/form-data"])

    def test_generation_config(self):
        """The rules of generation_config.json, as for texts: members that are not known are named, and so are those that
        ask for another way of choosing tokens."""
        folder, sound = os.path.join(tempfile.mkdtemp(), "rules"), os.path.join(self.root, "short.wav")
        self.addCleanup(shutil.rmtree, os.path.dirname(folder))
        shutil.copytree(os.path.join(self.root, "tiny"), folder)
        with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as file:
            settings = json.load(file)

        def segments(**more):
            """The tokens of each segment."""
            whisper.write(folder, "generation_config.json", dict(settings, **more))
            with Server(folder) as server:
                self.assertNotIn("without effect", server.log)
                return [one["tokens"] for one in server.ask(wav(SHORT.tobytes()), response_format="verbose_json")["segments"]]

        def first_repeated(tokens, size):
            seen = [tuple(tokens[i:i + size]) for i in range(len(tokens) - size + 1)]
            return len(set(seen)) < len(seen)

        with open(sound, "wb") as file:
            file.write(wav(SHORT.tobytes()))
        plain = segments()
        words = [token for tokens in plain for token in tokens]
        self.assertEqual(segments(alignment_heads=[[0, 1]], lang_to_id={}, task="transcribe", forced_decoder_ids=[[1, 2]],
                                  return_timestamps=True, length_penalty=1, num_beams=1, condition_on_prev_tokens=False,
                                  stop_strings=None, min_length=0), plain)
        self.assertFalse(set(words[:1]) & {token for tokens in segments(suppress_tokens=settings["suppress_tokens"] + words[:1])
                                           for token in tokens})
        self.assertNotEqual(segments(bad_words_ids=[words[:1]]), plain)
        for size in 1, 2:
            for tokens in segments(no_repeat_ngram_size=size):
                self.assertFalse(first_repeated(tokens, size), tokens)
        for config, line in (({"top_q": 1, "mirror": "x", "median_filter_width": 7},
                              "not known, and without effect: 'top_q', 'mirror'"),
                             ({"condition_on_prev_tokens": True}, "condition_on_prev_tokens is not supported; remove it"),
                             ({"encoder_repetition_penalty": 2}, "encoder_repetition_penalty: only 1 is supported; remove it"),
                             ({"stop_strings": "x"}, "stop_strings is not supported; remove it"),
                             ({"guidance_scale": 2}, "guidance_scale: only 1 is supported; remove it"),
                             ({"repetition_penalty": "x"}, "repetition_penalty is not a number from 0.01 to 100")):
            whisper.write(folder, "generation_config.json", dict(settings, **config))
            with Server(folder) as server:
                self.assertIn("generation_config.json: " + line, server.log)
            made = subprocess.run([CLI, "transcribe", folder, sound], capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode == 0, "without effect" in line, made.stderr)
            self.assertIn("generation_config.json: " + line, made.stderr)
        for damaged, line in ("[1]", "line 1: not an object"), ('{"top_p": 1,\n', "line 2: "):
            with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                file.write(damaged)
            with Server(folder) as server:
                self.assertIn("generation_config.json: " + line, server.log)

    def test_folders(self):
        """A folder by itself; the only model for speech answers also for another name. What is not understood is
        refused by name when the model is loaded."""
        folder = os.path.join(self.root, "tiny")
        with Server(folder) as server:
            want = server.ask(wav(SHORT.tobytes()))
            self.assertEqual(server.ask(wav(SHORT.tobytes()), model="whisper-1"), want)
        for file, key, value, words in (
                ("generation_config.json", "num_beams", 5, "num_beams: only 1 is supported; remove it"),
                ("generation_config.json", "suppress_tokens", ["a"], "suppress_tokens is not a list of tokens"),
                ("preprocessor_config.json", "feature_size", 128, "feature_size is 128, but num_mel_bins"),
                ("preprocessor_config.json", "feature_extractor_type", "Other", "is not WhisperFeatureExtractor"),
                ("preprocessor_config.json", "dither", 0.1, "dither is not supported"),
                ("config.json", "d_model", 15, "d_model and decoder_attention_heads")):
            copy = os.path.join(self.root, "..", os.path.basename(self.root) + ".copy")
            shutil.copytree(folder, copy)
            with open(os.path.join(copy, file), encoding="utf-8") as opened:
                settings = json.load(opened)
            whisper.write(copy, file, dict(settings, **{key: value}))
            with Server(copy) as server:
                self.assertIn(words, server.log)
            shutil.rmtree(copy)


if __name__ == "__main__":
    unittest.main()
