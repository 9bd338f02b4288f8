#!/usr/bin/env python3
"""The pages with graphs in Chromium, used as by a person: search, click, keys, folding, zoom; hostile names; contrast.

  graph_page.py INLAY          exit code 77: Chromium is not installed"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from browser import Browser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk/docs"))

import drawing  # noqa: E402: the path above

INLAY = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "inlay"
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "host/tools/report"
EVIL = "/evil/</script><script>document.title='pwned'</script>\"'`<img src=x onerror=\"document.title='pwned'\">&amp;<!--"
COMMON = ["--no-config", "--cache-dir", "", "--intra-threads", "1", "--providers", "reference", "--probe", "never"]


def blocks(path, count, activation="Sigmoid", extra=False, evil=False):
    """Writes a model of blocks with residual connections, whose names have scopes: /net/block.0/mlp/up/MatMul."""
    random = np.random.default_rng(5)
    nodes, weights, at = [], [], "x"

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name + "_out"], name=name, **attributes))
        return name + "_out"

    def weight(name, *shape):
        weights.append(numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name))
        return name

    for i in range(count):
        scope, start = f"/net/block.{i}", at
        for part in ("up", "down"):
            place = f"{scope}/mlp/{part}"
            at = node("MatMul", [at, weight(f"block.{i}.{part}", 8, 8)], place + "/MatMul")
            at = node(activation if i == 1 else "Sigmoid", [at], place + "/act")
        if extra and i == 1:
            at = node("Neg", [at], scope + "/mlp/Neg")
        at = node("Add", [at, start], scope + "/Add")
    if evil:
        at = node("Relu", [at], EVIL)
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
                              [helper.make_tensor_value_info(at, TensorProto.FLOAT, [2, 8])], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def modules(path):
    """Writes a model as PyTorch's exporter does: names without scopes, and the module of each node in its metadata."""
    nodes = []
    for i in range(8):
        module = f"net.{'encoder' if i < 4 else 'decoder'}.{i // 2}"
        made = helper.make_node("Sigmoid", [f"v{i}"], [f"v{i + 1}"], name=f"node_{i}")
        key, value = b"pkg.torch.onnx.name_scopes", str(["", "net", module, f"sigmoid_{i}"]).encode()
        entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
        made.MergeFromString(b"\x4a" + bytes([len(entry)]) + entry)  # metadata_props, which old packages lack
        nodes.append(made)
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [2, 8])],
                              [helper.make_tensor_value_info("v8", TensorProto.FLOAT, [2, 8])])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


# Records the contrast of each text that is drawn on a canvas, to the pixel that was there before.
WATCH_TEXTS = """
  window.drawnTexts = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    if (this.globalAlpha === 1 && text !== '') {
      const p = this.getTransform().transformPoint({ x, y: y - 4 });
      if (p.x < 0 || p.y < 0 || p.x >= this.canvas.width || p.y >= this.canvas.height)
        return fillText.call(this, text, x, y, ...more);
      const under = this.getImageData(p.x, p.y, 1, 1).data;
      window.drawnTexts.push([text, this.fillStyle, [...under].slice(0, 3)]);
    }
    return fillText.call(this, text, x, y, ...more);
  };
"""

# The colours of all visible texts of the document: [text, colour, background, large].
TEXTS = """(() => {
  const seen = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const solid = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$|transparent/.test(c)) return c;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (walk.currentNode.data.trim() === '' || !e.checkVisibility() || e.closest('script, style, title')) continue;
    seen.push([walk.currentNode.data.trim(), getComputedStyle(e)[e.closest('svg') ? 'fill' : 'color'], solid(e)]);
  }
  for (const e of document.querySelectorAll('input'))
    seen.push([e.placeholder, getComputedStyle(e, '::placeholder').color, solid(e)]);
  return seen;
})()"""


def channels(colour):
    if isinstance(colour, list):
        return colour
    if colour.startswith("#"):
        return [int(colour[i:i + 2], 16) for i in (1, 3, 5)]
    return [float(x) for x in colour[colour.index("(") + 1:-1].split(",")[:3]]


def luminance(colour):
    parts = [c / 255 for c in channels(colour)]
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    """As WCAG 2 defines it."""
    x, y = sorted((luminance(a), luminance(b)))
    return (y + 0.05) / (x + 0.05)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chdir(cls.folder)
        blocks("a.onnx", 4)
        blocks("b.onnx", 4, activation="Relu", extra=True)
        blocks("evil.onnx", 1, evil=True)
        modules("modules.onnx")
        blocks("many.onnx", 60)
        cls.inlay("inspect", "a.onnx", "--graph", "a.html")
        cls.inlay("inspect", "evil.onnx", "--graph", "evil.html")
        cls.inlay("inspect", "many.onnx", "--graph", "many.html")
        cls.inlay("diff", "a.onnx", "b.onnx", "--html", "diff.html", code=1)
        cls.inlay("diff", "evil.onnx", "evil.onnx", "--html", "evil_diff.html")
        cls.inlay("explain", "a.onnx", "--html", "explain.html", *COMMON)
        cls.inlay("explain", "modules.onnx", "--html", "modules.html", *COMMON)
        cls.inlay("explain", "evil.onnx", "--html", "evil_explain.html", *COMMON)
        cls.inlay("profile", "a.onnx", "--html", "profile.html", "--runs", "3", "--no-peak", *COMMON)
        cls.inlay("profile", "modules.onnx", "--html", "modules_profile.html", "--runs", "3", "--no-peak", *COMMON)
        cls.inlay("profile", "evil.onnx", "--html", "evil_profile.html", "--runs", "3", "--no-peak", *COMMON)
        cls.browser = cls.enterClassContext(Browser(cls.folder)) if hasattr(cls, "enterClassContext") else cls.enter()

    @classmethod
    def enter(cls):
        browser = Browser(cls.folder)
        browser.__enter__()
        cls.addClassCleanup(browser.__exit__)
        return browser

    @staticmethod
    def inlay(*arguments, code=0):
        done = subprocess.run([INLAY, *arguments], capture_output=True, check=False)
        if done.returncode != code:
            raise RuntimeError(f"inlay {arguments}: {done.returncode} {done.stderr.decode()}")

    def tearDown(self):
        self.assertEqual(self.browser.problems(), [])

    # ------------------------------------------------------------ a person's steps

    def test_search_and_click(self):
        b = self.browser
        b.show("a.html")
        self.assertTrue(b.value("document.getElementById('detail').hidden"))
        b.key("/")
        b.type("down/matmul")
        self.assertEqual(b.text("#hits"), "4")
        b.key("Enter")
        b.key("Enter")
        self.assertEqual(b.text("#hits"), "2 of 4")
        self.assertEqual(b.text("#detail h3"), "MatMul")
        self.assertIn("/net/block.1/mlp/down/MatMul", b.text("#detail"))
        # The node is in the middle: another click on it, with the panel closed, opens the panel again.
        place = b.centre(".graph")
        b.key("Escape")
        self.assertEqual(b.text("#hits"), "")
        b.click("#detail .close")
        self.assertTrue(b.value("document.getElementById('detail').hidden"))
        b.click(place)
        self.assertIn("/net/block.1/mlp/down/MatMul", b.text("#detail"))
        # Its shapes and weights, and the way to its neighbours.
        self.assertIn("float[8,8], constant", b.text("#detail"))
        self.assertIn("float[2,8]", b.text("#detail"))
        self.assertEqual(b.value("document.querySelectorAll('#detail .bins i').length"), 24)
        b.click("#detail .end .link")
        self.assertEqual(b.text("#detail h3"), "Sigmoid")
        self.assertIn("block.1/mlp/up/act", b.text("#detail"))

    def test_keys(self):
        b = self.browser
        b.show("a.html")
        b.click(".graph")
        b.key("Escape")
        first = b.picture(".stage")
        for key in ("+", "ArrowLeft", "ArrowDown", "-"):
            before = b.picture(".stage")
            b.key(key)
            self.assertNotEqual(b.picture(".stage"), before, key)
        b.key("f")
        self.assertEqual(b.picture(".stage"), first)
        b.key("n")
        b.key("n")
        self.assertIn("/net/block.0/mlp/up/MatMul", b.text("#detail"))
        b.key("p")
        self.assertEqual(b.text("#detail h3"), "Input")
        # Enter folds the innermost scope of a node, and unfolds it again.
        b.key("n")
        self.assertEqual(b.text(".status"), "20 nodes")
        b.key("Enter")
        self.assertEqual(b.text(".status"), "20 nodes, 2 of them in 1 folded box")
        self.assertIn("net/block.0/mlp/up", b.text("#detail").replace("block.0", "net/block.0"))
        b.key("Enter")
        self.assertEqual(b.text(".status"), "20 nodes")

    def test_mouse(self):
        b = self.browser
        b.show("a.html")
        x, y = b.centre(".graph")
        first = b.picture(".stage")
        b.wheel(x, y, -400)
        near = b.picture(".stage")
        self.assertNotEqual(near, first)
        b.drag((x, y), (x + 90, y + 40))
        self.assertNotEqual(b.picture(".stage"), near)
        b.click("#fit")
        b.move(5, 5)
        self.assertEqual(b.picture(".stage"), first)
        b.click("#theme")
        self.assertNotEqual(b.picture(".stage"), first)

    def test_fingers(self):
        b = self.browser
        b.show("a.html", width=390, height=844)
        x, y = b.centre(".graph")
        first = b.picture(".stage")
        b.pinch(x, y, 30, 90)
        near = b.picture(".stage")
        self.assertNotEqual(near, first)
        b.pinch(x, y, 90, 30)
        self.assertNotEqual(b.picture(".stage"), near)
        self.assertTrue(b.value("document.getElementById('detail').hidden"))
        b.click("#fit")
        self.assertEqual(b.picture(".stage"), first)

    def test_scopes(self):
        b = self.browser
        b.show("a.html")
        b.choose("#fold", "2")
        self.assertEqual(b.text(".status"), "20 nodes, 20 of them in 4 folded boxes")
        b.key("/")
        b.type("block.2/mlp/up/act")
        self.assertEqual(b.text("#hits"), "1")
        self.assertEqual(b.text(".status"), "20 nodes, 20 of them in 4 folded boxes")
        b.key("Enter")  # what hides the node unfolds, its neighbours stay folded
        self.assertEqual(b.text(".status"), "20 nodes, 17 of them in 4 folded boxes")
        self.assertIn("/net/block.2/mlp/up/act", b.text("#detail"))
        b.click("#detail .trail .link:nth-child(2)")
        self.assertEqual(b.text(".status"), "20 nodes, 20 of them in 4 folded boxes")
        self.assertEqual(b.text("#detail h3"), "5 nodes")
        b.click(b.centre(".graph"), count=2)
        self.assertEqual(b.text(".status"), "20 nodes, 19 of them in 4 folded boxes")

    def test_modules(self):
        """Nodes are grouped by the module that they were exported from; the table of objectives has a row each."""
        b = self.browser
        b.show("modules.html")
        self.assertIn("net/encoder", b.text("#side"))
        self.assertEqual(b.value("document.querySelectorAll('table.objectives tr').length"), 4)
        b.choose("#fold", "2")
        self.assertEqual(b.text(".status"), "8 nodes, 8 of them in 2 folded boxes")

    def test_table_of_modules(self):
        """The rows of modules fold and unfold on the pages of graphs and profiles, with mouse and keys."""
        b = self.browser
        for page in ("a.html", "explain.html", "profile.html"):
            with self.subTest(page=page):
                b.show(page)
                table = "#page > .wide table.modules" if page == "profile.html" else "table.modules"  # the graph has one, too

                def rows(of):
                    return b.value(f"[...document.querySelectorAll('{table} tr.go')].map((row) => {of})")
                blocks_only = rows("row.title")
                self.assertEqual(sorted(blocks_only), [f"net/block.{i}" for i in range(4)])
                first = blocks_only[0]
                b.click(table + " button.mark")
                self.assertEqual(rows("row.title")[:2], [first, first + "/mlp"])
                self.assertEqual(rows("row.title")[2:], blocks_only[1:])
                b.value(f"document.querySelectorAll('{table} tr.go')[1].focus()")
                b.key("ArrowRight")
                self.assertEqual(sorted(rows("row.title")[2:4]), [first + "/mlp/down", first + "/mlp/up"])
                b.key("ArrowLeft")
                self.assertEqual(rows("row.title"), [first, first + "/mlp", *blocks_only[1:]])
                b.key("ArrowRight")
                b.click(table + " button.mark")  # folds the modules inside it, too
                self.assertEqual(rows("row.title"), blocks_only)
                # A module's nodes or steps are those of the modules within it; a step may be several nodes.
                counts = rows("row.cells[1].innerText")
                self.assertEqual(counts, [counts[0]] * 4)
                b.value(f"document.querySelector('{table} tr.go').focus()")
                b.key("Enter")
                if page != "profile.html":
                    self.assertEqual(counts[0], "5")
                    self.assertIn("/" + first + "/", b.text("#detail"))  # its first node is chosen
                else:
                    self.assertEqual(b.value("document.querySelector('#page > input').value"), first + "/")
                    names = b.value("[...document.querySelectorAll('#page > .wide tbody tr')].map((row) => row.dataset.name)")
                    self.assertEqual({"/".join(step.split("/")[:3]) for step in names}, {"/" + first})
                    self.assertEqual(str(len(names)), counts[0])
        b.show("modules_profile.html")
        self.assertIn("net/encoder", b.text("table.modules"))

    def test_large_models_open_folded(self):
        b = self.browser
        b.show("many.html")
        self.assertEqual(b.text(".status"), "300 nodes, 240 of them in 60 folded boxes")
        b.choose("#fold", "none")
        self.assertEqual(b.text(".status"), "300 nodes")

    def test_address_of_a_node(self):
        b = self.browser
        b.show("many.html")
        b.value("location.hash = '#node=' + encodeURIComponent('/net/block.7/Add')")
        b.until("!document.getElementById('detail').hidden")
        self.assertIn("/net/block.7/Add", b.text("#detail"))

    def test_two_models(self):
        b = self.browser
        b.show("diff.html")
        self.assertEqual(b.value("document.querySelectorAll('.stage').length"), 2)
        self.assertIn("A: a.onnx", b.text("#stages"))
        changes = b.value("[...document.querySelectorAll('#side table')].map((t) => t.innerText)")[0]
        self.assertIn("Sigmoid /net/block.1/mlp/up/act", changes)
        self.assertIn("changed: operator", changes)
        self.assertIn("+ Neg /net/block.1/mlp/Neg", changes)
        self.assertNotIn("block.2", changes)
        b.click("#side tr.go")
        self.assertIn("\u2212 ai.onnx Sigmoid", b.text("#detail"))
        self.assertIn("+ ai.onnx Relu", b.text("#detail"))
        b.key("/")
        b.type("mlp/neg")
        b.key("Enter")
        self.assertIn("only in B", b.text("#detail"))
        # Folding acts on both.
        b.choose("#fold", "2")
        self.assertEqual(b.value("[...document.querySelectorAll('.status')].map((e) => e.innerText)"),
                         ["20 nodes, 20 of them in 4 folded boxes", "21 nodes, 21 of them in 4 folded boxes"])

    def test_session(self):
        b = self.browser
        b.show("explain.html")
        self.assertIn("reference", b.text("#side"))
        self.assertEqual(b.value("[...document.querySelectorAll('#shade option')].map((e) => e.value)"),
                         ["provider", "time", "operator"])
        before = b.picture(".stage")
        b.choose("#shade", "time")
        self.assertNotEqual(b.picture(".stage"), before)
        b.click(b.centre("#time"))
        self.assertFalse(b.value("document.getElementById('detail').hidden"))
        self.assertIn("predicted", b.text("#detail"))
        b.choose("#fold", "part")
        self.assertRegex(b.text(".status"), "folded box")

    def test_profile(self):
        b = self.browser
        b.show("profile.html")
        self.assertEqual(b.value("document.getElementById('shade').value"), "time")
        # Each step of the table leads to its node, or to the first of several; a node's own step has its time.
        steps = b.value("[...document.querySelectorAll('#page > .wide tbody tr')].map((row) => row.dataset.name)")
        self.assertTrue(any(" .. " in step for step in steps))
        for step in sorted(steps, key=lambda step: " .. " not in step):
            b.value(f"[...document.querySelectorAll('#page > .wide tbody tr')][{steps.index(step)}].click()")
            node = json.dumps(step.split(" .. ")[0])
            b.until(f"document.querySelector('#detail .name')?.innerText === {node}")
        b.settle()
        self.assertIn("profiled", b.text("#detail"))
        self.assertLess(b.centre("#detail h3")[1], 800)
        # A profile that a program has saved has no graph.
        saved = subprocess.run([INLAY, "profile", "a.onnx", "--runs", "2", "--no-peak", "--json", *COMMON],
                               capture_output=True, check=True).stdout
        pathlib.Path("saved.json").write_bytes(saved)
        self.inlay("profile", "--from", "saved.json", "--html", "saved.html")
        b.show("saved.html")
        self.assertIsNone(b.text("#viewer"))
        self.assertIn("Steps", b.text("#page"))

    def test_drawing(self):
        """The picture in SVG of sdk/docs/drawing.py has the pixels of the page, except for the edges of texts."""
        b = self.browser
        page = pathlib.Path("explain.html").resolve()
        picture = pathlib.Path("drawn.svg").resolve()
        picture.write_text(drawing.draw(b, page, 860, 560, node="/net/block.1/mlp/up/act", colour="time", whole=True))
        pathlib.Path("drawn.html").write_text(f"<body style='margin:0'><img src='{picture.as_uri()}'>")
        seen = {}
        for dark in (False, True):
            drawing.lay_out(b, page, 860, 560, dark, node="/net/block.1/mlp/up/act", colour="time", whole=True)
            seen["page", dark] = b.picture()
            self.assertEqual(b.problems(), [])
            b.show("drawn.html", 860, 560, dark=dark)
            b.events = []  # of the picture's own file
            seen["drawn", dark] = b.picture()
        for dark in (False, True):
            self.assertLess(self.difference(seen["page", dark], seen["drawn", dark]), 1)
            self.assertGreater(self.difference(seen["page", dark], seen["drawn", not dark]), 100)

    def difference(self, one, other):
        """The mean difference of the bytes of two pictures."""
        urls = json.dumps(["data:image/png;base64," + base64.b64encode(data).decode() for data in (one, other)])
        found = self.browser.value("""(async () => {
          const data = [];
          for (const url of %s) {
            const image = await createImageBitmap(await (await fetch(url)).blob());
            const ctx = new OffscreenCanvas(image.width, image.height).getContext('2d');
            ctx.drawImage(image, 0, 0);
            data.push(ctx.getImageData(0, 0, image.width, image.height).data);
          }
          return data[0].reduce((sum, x, i) => sum + Math.abs(x - data[1][i]), 0) / data[0].length;
        })()""" % urls)
        self.browser.events = []  # of the two pictures
        return found

    # ------------------------------------------------------------ any model, any screen

    def test_hostile_names(self):
        b = self.browser
        for page in ("evil.html", "evil_diff.html", "evil_explain.html", "evil_profile.html"):
            with self.subTest(page=page):
                b.show(page)
                b.key("/") if page != "evil_profile.html" else b.click("#search")
                b.type("pwned")
                b.key("Enter")
                self.assertIn(EVIL, b.text("#detail"))
                b.move(*b.centre(".graph"))
                self.assertNotEqual(b.value("document.title"), "pwned")
                self.assertEqual(b.value("document.querySelectorAll('img').length"), 0)
                self.assertEqual(b.value("document.querySelectorAll('script:not([type])').length"), 1)
                self.assertEqual(b.problems(), [])

    def test_contrast(self):
        b = self.browser
        watch = b.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH_TEXTS)["identifier"]
        try:
            for page in ("a.html", "many.html", "diff.html", "explain.html", "profile.html", "modules_profile.html"):
                for dark in (False, True):
                    b.show(page, dark=dark)
                    for shade in b.value("[...document.querySelectorAll('#shade option')].map((e) => e.value)"):
                        b.choose("#shade", shade)
                    if "profile" not in page:
                        b.key("/")
                        b.type("act")
                        b.key("Enter")
                    texts = b.value(TEXTS) + b.value("window.drawnTexts")
                    self.assertGreater(len(texts), 50)
                    for text, ink, ground in texts:
                        if contrast(ink, ground) < 4.5:
                            self.fail(f"{page}, {'dark' if dark else 'light'}: '{text}' has the contrast "
                                      f"{contrast(ink, ground):.2f}: {ink} on {ground}")
        finally:
            b.call("Page.removeScriptToEvaluateOnNewDocument", identifier=watch)

    def test_narrow_screens(self):
        b = self.browser
        for page in ("a.html", "diff.html", "explain.html", "profile.html"):
            with self.subTest(page=page):
                b.show(page, width=390, height=844)
                self.assertLessEqual(b.value("document.querySelector('#viewer').scrollWidth"), 390)
                self.assertGreater(b.value("document.querySelector('.graph').clientWidth"), 300)
                self.assertLessEqual(b.value("document.documentElement.scrollWidth"), 390)
                if page == "profile.html":
                    continue
                self.assertFalse(b.value("document.getElementById('side').checkVisibility()"))
                b.click("#lists")
                self.assertTrue(b.value("document.getElementById('side').checkVisibility()"))
                b.click("#lists")
                b.click("#search")
                b.type("up/MatMul")
                b.key("Enter")
                self.assertIn("block.0/mlp/up/MatMul", b.text("#detail"))
                # The node is in the middle of what the panel leaves free.
                x, y, w, _ = b.rectangle(".graph")
                place = (x + w / 2, (y + min(b.rectangle("#detail")[1], y + b.rectangle(".graph")[3])) / 2)
                b.click("#detail .close")
                b.click(place)
                self.assertIn("block.0/mlp/up/MatMul", b.text("#detail"))

    def test_tables_fit_the_panel(self):
        b = self.browser
        for page in ("explain.html", "profile.html"):
            b.show(page, width=1280, height=844)
            b.value("document.querySelectorAll('#side td.n').forEach((cell) => { cell.textContent = '99.9 MiB'; })")
            self.assertEqual(b.value("[...document.querySelectorAll('#side table')].filter((table) => table.offsetWidth > "
                                     "table.parentElement.clientWidth - 28).map((table) => table.textContent)"), [])

    # ------------------------------------------------------------ the layout

    def test_layout(self):
        """Lines lead downwards or to a later column, boxes do not overlap, and folded groups form no cycle."""
        b = self.browser
        b.show("a.html")
        sources = "".join((SOURCES / name).read_text() for name in ("words.js", "modules.js", "graph/layout.js", "graph/scene.js"))
        found = b.value("(() => {" + sources + """
          let seed = 7;
          const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 65536) % n; };
          const wrong = [];
          let boxes = 0, pieces = 0;
          for (let round = 0; round < 120; round++) {
            const count = 2 + random(60), nodes = [], values = [{ name: 'x' }];
            for (let i = 0; i < count; i++) {
              const inputs = [], reads = 1 + random(3);
              for (let k = 0; k < reads; k++) inputs.push(random(3) > 0 ? Math.max(0, values.length - 1 - random(5)) : random(values.length));
              nodes.push({ name: 's' + random(3) + '/t' + random(3) + '/n' + i, op: 'Op', inputs, outputs: [values.length], provider: 'p' });
              values.push({ name: 'v' + i });
            }
            const g = { path: 'main', nodes, values, inputs: [0], outputs: [values.length - 1] };
            indexGraph(g, [], {}, null);
            const folded = new Set();
            for (const n of g.nodes) for (const scope of n.scopes) if (random(4) === 0) folded.add(scopeKey(g, scope));
            const { items, nets } = itemsOf(g, folded, 1.5);
            for (const net of nets) for (const to of net.to) if (to <= net.from) wrong.push('cycle in round ' + round);
            const shown = items.flatMap((item) => item.nodes || []);
            if (shown.length !== count || new Set(shown).size !== count) wrong.push('nodes are missing in round ' + round);
            for (const item of items) if (item.kind === 'fold') { boxes++; pieces += item.box.pieces > 1; }
            layered(items, nets, 1.5);
            items.forEach((a, i) => items.forEach((c, k) => {
              if (i < k && a.x < c.x + c.w && c.x < a.x + a.w && a.y < c.y + c.h && c.y < a.y + a.h) wrong.push('overlap in round ' + round);
            }));
            for (const net of nets) for (const s of net.segments) {
              const p = s.points;
              if (p.length === 4 && !s.loose && p[3] < p[1]) wrong.push('upwards in round ' + round);
            }
          }
          return { wrong, boxes, pieces };
        })()""")
        self.assertEqual(found["wrong"], [])
        self.assertGreater(found["boxes"], 100)
        self.assertGreater(found["pieces"], 20)  # groups that are no convex part of the graph


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        print("skipped: chromium is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
