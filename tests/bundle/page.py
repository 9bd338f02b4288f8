#!/usr/bin/env python3
"""Models that `inlay bundle` compiled to WebAssembly in Chromium: the page of samples/deploy/web classifies its picture,
and the results of a model equal those of `inlay run`.

  page.py INLAY MAKE_MODELS FOLDER_OF_PAGE [SCREENSHOT.png]    exit code 77: Chromium is not installed"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
from browser import Browser, served  # noqa: E402

INPUT = 64
# Runs the model in the page on numbers that Python can repeat, and returns the result as a list.
RUN = f"""(async () => {{
  const {{ load }} = await import('./mlp.mjs'), model = await load()
  const x = Float32Array.from({{ length: {INPUT} }}, (_, i) => (i * 37 % 64 - 32) / 32)
  return [...model.run({{ x }}).y]
}})()"""


def expected(inlay, folder):
    """The result of `inlay run`, from the bytes of its .npy file."""
    import array
    numbers = array.array("f", [(i * 37 % 64 - 32) / 32 for i in range(INPUT)])
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64), }".ljust(117) + "\n"
    pathlib.Path(folder, "x.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + head.encode() + numbers.tobytes())
    subprocess.run([inlay, "run", f"{folder}/mlp.onnx", "--no-config", "--inputs", folder, "--outputs", f"{folder}/out"],
                   check=True, capture_output=True)
    data = pathlib.Path(folder, "out", "y.npy").read_bytes()
    return list(array.array("f", data[10 + data[8] + 256 * data[9]:]))


def main(inlay, make_models, page, screenshot=None):
    if shutil.which("chromium") is None:
        print("Chromium is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([make_models, folder], check=True)
        shutil.copy(f"{page}/index.html", folder)
        for words in (["net.onnx", "-o", f"{folder}/model.wasm", "--dim", "N=1"], ["mlp.onnx", "-o", f"{folder}/mlp.wasm"]):
            subprocess.run([inlay, "bundle", f"{folder}/{words[0]}", *words[1:], "--target", "wasm32", "--no-config",
                            "--quiet"], check=True, stdout=subprocess.DEVNULL)
        want = expected(inlay, folder)
        with served(folder) as root, Browser(folder) as browser:
            address = f"{root}/index.html"
            browser.show(address, width=800, height=480)
            browser.until("document.querySelector('#time').innerText !== ''")
            about, rows = browser.text("#about"), browser.value("document.querySelectorAll('#scores tr').length")
            assert about == "input x: float [1, 3, 16, 16]", about
            assert rows == 6, rows
            assert browser.text("#error") == "", browser.text("#error")
            got = browser.value(RUN)
            assert len(got) == len(want) == 10 and max(map(abs, want)) > 0, (got, want)
            worst = max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
            assert worst < 1e-5, (worst, got, want)
            failed = [problem for problem in browser.problems() if not problem.startswith(root)]
            assert not failed, failed
            if screenshot:
                browser.picture(path=screenshot)
    print(f"the page runs the model: {json.dumps(about)}, largest relative difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
