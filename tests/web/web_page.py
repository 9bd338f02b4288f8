#!/usr/bin/env python3
"""The npm package inlay-web in Chromium: the page of samples/web runs the model in its folder, then one that the user
chooses, in a worker; the results of a model equal those of `inlay run`; a damaged file is an error on the page. A page that
is isolated from other origins computes with several threads, in its main thread and in a worker.

  web_page.py INLAY MAKE_MODELS PACKAGE FOLDER_OF_PAGE [SCREENSHOT.png]    exit code 77: Chromium is not
installed, or there is no package, because the test `web` was skipped"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

tests = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(tests / "report"), str(tests / "bundle")]
from browser import Browser, IsolatedHandler, served  # noqa: E402
from page import INPUT, expected  # noqa: E402

# Results of 1 and of 3 threads, and how often workers took part.
THREADS = """
const { InlaySession, Tensor } = await import(root + '/inlay-web/index.js')
const instances = [], { Instance } = WebAssembly
WebAssembly.Instance = class extends Instance {
  constructor(...given) {
    super(...given)
    instances.push(this.exports)
  }
}
const x = new Tensor('float32', Array.from({ length: 40 * 3 * 256 }, (_, i) => Math.sin(i)), [40, 3, 16, 16])
const [one, several] = [await InlaySession.create(root + '/net.onnx', { intraOpNumThreads: 1 }),
  await InlaySession.create(root + '/net.onnx', { intraOpNumThreads: 3 })]
const want = [...(await one.run({ x })).y.data]
let got = []
do got = [...(await several.run({ x })).y.data]
while (self.crossOriginIsolated && instances[1].joins() === 0)
const same = got.length === 640 && got.every((value, i) => value === want[i])
const answer = { same, isolated: self.crossOriginIsolated, shared: instances[0].joins() + 2 * Math.sign(instances[1].joins()) }
one.dispose()
several.dispose()
"""
ON_PAGE = f"(async root => {{ {THREADS} return answer }})(location.origin)"
IN_WORKER = """new Promise((resolve, reject) => {
  const worker = new Worker('threads.js', { type: 'module' })
  worker.onmessage = ({ data }) => resolve(data)
  worker.onerror = () => reject(new Error('the worker failed'))
})"""

RUN = f"""(async () => {{
  const {{ InlaySession, Tensor }} = await import('./inlay-web/index.js')
  const session = await InlaySession.create('mlp.onnx')
  const x = new Tensor('float32', Array.from({{ length: {INPUT} }}, (_, i) => (i * 37 % 64 - 32) / 32), [1, {INPUT}])
  return [...(await session.run({{ x }})).y.data]
}})()"""


def choose(browser, file):
    """Chooses the file as the model."""
    document = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=document, selector="#model")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])


def main(inlay, make_models, package, page, screenshot=None):
    if shutil.which("chromium") is None:
        print("Chromium is not installed")
        return 77
    if not pathlib.Path(package, "inlay.wasm").exists():
        print(f"there is no package in {package}: the test `web` was skipped")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([make_models, folder], check=True)
        shutil.copytree(page, folder, dirs_exist_ok=True)
        shutil.copytree(package, f"{folder}/inlay-web")
        shutil.copy(f"{folder}/net.onnx", f"{folder}/model.onnx")
        pathlib.Path(folder, "damaged.onnx").write_bytes(pathlib.Path(folder, "net.onnx").read_bytes()[:-200])
        want = expected(inlay, folder)
        with served(folder) as root, Browser(folder) as browser:
            browser.show(f"{root}/index.html", width=800, height=480)
            browser.until("document.querySelector('#time').innerText !== ''")
            about = browser.text("#about")
            assert about.startswith("input x: float32 [N, 3, 16, 16]; loaded in "), about
            assert browser.value("document.querySelectorAll('#scores tr').length") == 6
            assert browser.text("#error") == "", browser.text("#error")
            if screenshot:
                browser.picture(path=screenshot)
            choose(browser, f"{folder}/damaged.onnx")
            browser.until("document.querySelector('#error').innerText !== ''")
            assert "truncated" in browser.text("#error"), browser.text("#error")
            assert browser.text("#about") == "choose a model"
            choose(browser, f"{folder}/mlp.onnx")
            browser.until("document.querySelector('#error').innerText.includes('x: float32 [1, 64]')")
            choose(browser, f"{folder}/net.onnx")
            browser.until("document.querySelector('#about').innerText.startsWith('input x')")
            assert browser.text("#error") == "", browser.text("#error")
            got = browser.value(RUN)
            assert len(got) == len(want) == 10 and max(map(abs, want)) > 0, (got, want)
            worst = max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
            assert worst < 1e-5, (worst, got, want)
            alone = browser.value(ON_PAGE)
            assert alone == {"same": True, "isolated": False, "shared": 0}, alone
            expected_problems = [root, f"blob:{root}"]
            if not pathlib.Path(package, "inlay-relaxed.wasm").exists(): # which is built with a newer compiler
                expected_problems.append("Failed to load resource: the server responded with a status of 404")
            failed = [problem for problem in browser.problems() if not problem.startswith(tuple(expected_problems))]
            assert not failed, failed
        pathlib.Path(folder, "threads.js").write_text(f"const root = location.origin\n{THREADS}\npostMessage(answer)\n")
        with served(folder, IsolatedHandler) as root, Browser(folder) as browser:
            browser.show(f"{root}/index.html", width=800, height=480)
            for where in ON_PAGE, IN_WORKER:
                several = browser.value(where)
                assert several == {"same": True, "isolated": True, "shared": 2}, several
    print(f"the page runs the models: {json.dumps(about)}, largest relative difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
