#!/usr/bin/env python3
"""A program for onnxruntime-web (program/) runs on the package inlay-onnxruntime-web: bundled by esbuild, Rollup, webpack
and Vite, in Chromium, in pages that are isolated from other origins and in others, under a Content Security Policy
without 'unsafe-eval'.

  bundlers.py INLAY MAKE_MODELS WEB_PACKAGE SOURCE_DIR MODULES       exit code 77: Chromium or the package is missing"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

tests = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(tests / "report"), str(tests / "bundle")]
from browser import Browser, IsolatedHandler, QuietHandler, served  # noqa: E402
from page import expected  # noqa: E402

BUNDLERS = "esbuild", "rollup", "webpack", "vite"
# Rollup and esbuild leave out worker.js, so that sessions have one thread.
THREADED = "webpack", "vite"


def make(folder, web, source, modules):
    """The program with the packages where npm would put them, and its bundles, in folders beside it."""
    program = pathlib.Path(folder, "program")
    shutil.copytree(tests / "web/program", program)
    shutil.copytree(f"{source}/sdk/bindings/web-onnxruntime", program / "node_modules/onnxruntime-web")
    shutil.copytree(web, program / "node_modules/inlay-web")
    shutil.copytree(f"{modules}/onnxruntime-common", program / "node_modules/onnxruntime-common")
    for bundler in BUNDLERS:
        out = pathlib.Path(folder, bundler)
        subprocess.run(["node", program / "bundle.mjs", modules, bundler, out], check=True)
        if bundler != "vite":
            shutil.copy(program / "index.html", out)
    pathlib.Path(folder, "static").mkdir()
    for module in pathlib.Path(web).glob("*.wasm"):
        shutil.copy(module, f"{folder}/static")


def check(answer, want, bundler, isolated):
    assert "error" not in answer, answer["error"]
    for got in answer["results"]:
        worst = max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
        assert len(got) == len(want) and worst < 1e-5, (got, want)
    assert answer["same"] and answer["isolated"] == isolated
    assert answer["threads"] >= 1 and answer["version"] == "0.1.0"
    port = {"name": "x", "isTensor": True, "type": "float32", "shape": [1, 64]}
    assert answer["metadata"] == [["x"], ["y"], [port]], answer["metadata"]
    assert answer["picture"] == [[1, 3, 1, 2], [255, 0, 0, 102, 51, 0]], answer["picture"]
    assert answer["pixels"] == [255, 0, 51, 255, 0, 102, 0, 255], answer["pixels"]
    assert answer["float16"] in ("Float16Array", "Uint16Array")
    assert answer["refused"][0].startswith("no available backend found. ERR: [webgpu] Error: webgpu is not available")
    assert answer["refused"][1] == "no available backend found. ERR: [bogus] backend not found."
    removed = [text for text in answer["warnings"] if text.startswith('removing requested execution provider "webgpu"')]
    threads = [text for text in answer["warnings"] if "a thread cannot be started" in text]
    assert len(removed) == 1, answer["warnings"]
    assert bool(threads) == (isolated and bundler not in THREADED), answer["warnings"]
    assert len(answer["warnings"]) == len(removed) + len(threads), answer["warnings"]


def main(inlay, make_models, web, source, modules):
    if shutil.which("chromium") is None or not pathlib.Path(web, "inlay.wasm").exists():
        print("Chromium is not installed, or the test `web` was skipped")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([make_models, folder], check=True)
        make(folder, web, source, modules)
        want = expected(inlay, folder)
        for isolated in False, True:
            with served(folder, IsolatedHandler if isolated else QuietHandler) as root, Browser(folder) as browser:
                for bundler in BUNDLERS:
                    browser.show(f"{root}/{bundler}/index.html", width=800, height=480)
                    browser.until("self.answer !== undefined")
                    check(browser.value("self.answer"), want, bundler, isolated)
                    print(f"{bundler}, {'isolated' if isolated else 'not isolated'}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
