#!/usr/bin/env python3
"""Measures how long Chromium takes to open the graph of a model with 5,000 nodes, with and without scopes in its names.

  opening.py INLAY [NODES]     prints milliseconds from the request to the first drawing, and those of CPU time that Chromium's
                               page process used, which other programs on the machine hardly change"""
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from browser import Browser

REPEATS = 7
# The views ask for their first frame before the page is loaded.
WHEN_DRAWN = """addEventListener('load', () => requestAnimationFrame(() => setTimeout(() => {
  window.openedAt = performance.now();
})))"""


def write_model(path, count, scopes):
    """Blocks of 10 nodes with three branches and a residual connection."""
    nodes, at = [], "x"
    weights = [numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")]

    def node(op, inputs, i, name):
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [out], name=f"/net/block.{i}/{name}/{op}" if scopes else f"{op}_{len(nodes)}"))
        return out

    for i in range(count // 10):
        start = at
        branches = [node("Sigmoid", [node("MatMul", [at, "w"], i, part)], i, part) for part in ("q", "k", "v")]
        at = node("Add", [branches[0], branches[1]], i, "mix")
        at = node("Mul", [at, branches[2]], i, "mix")
        at = node("MatMul", [at, "w"], i, "out")
        at = node("Add", [at, start], i, "out")
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8])],
                              [helper.make_tensor_value_info(at, TensorProto.FLOAT, [8, 8])], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def page_seconds(browser):
    """The CPU time of each process that shows pages, from its start."""
    session, browser.session = browser.session, None
    processes = browser.call("SystemInfo.getProcessInfo")["processInfo"]
    browser.session = session
    return {p["id"]: p["cpuTime"] for p in processes if p["type"] == "renderer"}


def main():
    inlay, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    with tempfile.TemporaryDirectory() as folder, Browser(folder) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WHEN_DRAWN)
        for scopes in (True, False):
            model, page = f"{folder}/model.onnx", f"{folder}/page.html"
            write_model(model, count, scopes)
            subprocess.run([inlay, "inspect", model, "--graph", page], check=True, stdout=subprocess.DEVNULL)
            times, used = [], []
            for _ in range(REPEATS):
                browser.call("Page.navigate", url="about:blank")
                before = page_seconds(browser)
                browser.show(page)
                times.append(browser.value("window.openedAt"))
                used.append(1000 * sum(s - before.get(p, 0) for p, s in page_seconds(browser).items()))
            print(f"{count} nodes {'with' if scopes else 'without'} scopes, {os.path.getsize(page) / 2**20:.1f} MiB: "
                  f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f}), CPU time "
                  f"{statistics.median(used):.0f} ms; {browser.text('.status')}")


if __name__ == "__main__":
    main()
