"""Takes pictures of the reports of a site, in light and dark, with headless Chromium.

    pictures.py SITE"""
import pathlib
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests/report"))

from browser import Browser  # noqa: E402: the path above


def take(browser, site):
    """Writes NAME-light.png and NAME-dark.png into the folder of each report."""
    for report in sorted(pathlib.Path(site, "reports").glob("*.html")):
        for mode in ("light", "dark"):
            browser.show(report, 1200, 760, dark=mode == "dark")
            browser.picture(path=report.with_name(f"{report.stem}-{mode}.png"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Browser(folder) as chromium:
        take(chromium, sys.argv[1])
