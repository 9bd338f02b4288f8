"""Drives headless Chromium as a person would: opens files, moves the mouse, presses keys, reads the document.

Chromium's DevTools protocol over a pipe: messages in JSON, each ended by a NUL. No package is needed."""
import base64
import contextlib
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *unused):
        pass


class IsolatedHandler(QuietHandler):
    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


@contextlib.contextmanager
def served(folder, handler=QuietHandler):
    """Serves the files of a folder over HTTP; the value is the URL of the folder. Pages of IsolatedHandler are isolated from
    other origins."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Browser:
    """A browser with one page. Use as a context manager; folder holds its profile."""

    def __init__(self, folder, limit_s=120):
        self.folder, self.limit_s = folder, limit_s
        self.number, self.session, self.events, self.pending = 0, None, [], b""

    def __enter__(self):
        read_end, self.write_to = os.pipe()
        self.read_from, write_end = os.pipe()

        def connect():  # Chromium expects these two descriptors
            os.dup2(read_end, 13)
            os.dup2(write_end, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        with open(f"{self.folder}/browser.log", "wb") as log:
            self.process = subprocess.Popen(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--remote-debugging-pipe", f"--user-data-dir={self.folder}/browser"], stdout=subprocess.DEVNULL,
                stderr=log, preexec_fn=connect, close_fds=False)
        os.close(read_end)
        os.close(write_end)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        shutil.rmtree(f"{self.folder}/browser", ignore_errors=True)

    # ---------------------------------------------------------------- the protocol

    def receive(self):
        """The next message."""
        while b"\0" not in self.pending:
            piece = os.read(self.read_from, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended: " + pathlib.Path(f"{self.folder}/browser.log").read_text()[-2000:])
            self.pending += piece
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        """Calls a method and returns its result; events that arrive meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    # ---------------------------------------------------------------- the page

    def show(self, path, width=1280, height=800, dark=False):
        """Opens a file, or the page at a URL, and waits until it is loaded and drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 700)
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 700)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="about:blank")
        self.events = []
        url = str(path) if "://" in str(path) else pathlib.Path(path).resolve().as_uri()
        self.call("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")
        self.settle()

    def value(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def settle(self):
        """Waits until the page has drawn all changes."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def until(self, expression):
        """Waits until an expression is true."""
        end = time.monotonic() + self.limit_s
        while not self.value(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"not true in time: {expression}")
            time.sleep(0.01)

    def text(self, selector):
        """The visible text of an element; None: there is none."""
        return self.value(f"(document.querySelector({json.dumps(selector)}) || {{innerText: null}}).innerText")

    def problems(self):
        """Errors of scripts, refused code, and requests other than for the page and its embedded data."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and params["type"] != "Document":
                found.append(params["request"]["url"])
        return found

    # ---------------------------------------------------------------- mouse and keys

    def centre(self, selector):
        """The middle of an element on the screen."""
        x, y, w, h = self.rectangle(selector)
        return x + w / 2, y + h / 2

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, where, count=1):
        """Clicks on an element or a point; count=2: twice."""
        x, y = self.centre(where) if isinstance(where, str) else where
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for n in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=n)
        self.settle()

    def drag(self, start, end):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=end[0], y=end[1], button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)
        self.settle()

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)
        self.settle()

    def pinch(self, x, y, start, end):
        """Moves two fingers from and to the given distance from a point."""
        def points(distance):
            return [{"x": x - distance, "y": y, "id": 0}, {"x": x + distance, "y": y, "id": 1}]

        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=points(start))
        for part in (0.5, 1):
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=points(start + (end - start) * part))
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def press(self, name):
        """Presses a key: a character, or a name as Enter, Escape, ArrowLeft."""
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(name, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=text, windowsVirtualKeyCode=code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def key(self, name):
        self.press(name)
        self.settle()

    def type(self, text):
        for character in text:
            self.press(character)
        self.settle()

    def choose(self, selector, value):
        """Chooses an option of a list."""
        self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
                   " e.dispatchEvent(new Event('change')); })()")
        self.settle()

    def rectangle(self, selector):
        """Left, top, width and height of an element on the screen."""
        return self.value(f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
                          ".getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()")

    def picture(self, selector=None, path=None):
        """A screenshot, of one element if a selector is given, as the bytes of a PNG; written to path if given."""
        clip = {}
        if selector:
            x, y, w, h = self.rectangle(selector)
            clip = {"clip": {"x": x, "y": y, "width": w, "height": h, "scale": 1}}
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"])
        if path:
            pathlib.Path(path).write_bytes(data)
        return data
