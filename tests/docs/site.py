"""The lints of the site that need a browser, which is started once: takes the pictures of the reports, then looks at
every page.

    site.py SITE

At 390 and 1280 pixels, no page scrolls sideways, and no line of code and no table is cut. In light and dark, every
visible text has the contrast that WCAG 2 AA asks for. No page makes a request to anything but the site's own files or
fails in a script. Search, copying, and the choice of colours work by mouse and keyboard."""
import pathlib
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(SOURCE / "tests/report"), str(SOURCE / "sdk/docs")]

import pictures  # noqa: E402: the paths above
from browser import Browser  # noqa: E402

# What is wider than its place: the page, a block of code, or a table.
TOO_WIDE = """(() => {
  const wide = [...document.querySelectorAll('pre, .code, .table')].filter((block) => block.scrollWidth > block.clientWidth + 1)
    .map((block) => 'cut: ' + block.textContent.slice(0, 60));
  if (document.documentElement.scrollWidth > innerWidth)
    wide.push('the page is ' + document.documentElement.scrollWidth + ' pixels wide');
  return wide;
})()"""

# Texts whose contrast with their background is below 4.5, or 3 if they are large.
TOO_PALE = """(() => {
  const channels = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const background = (element) => {
    for (; element; element = element.parentElement) {
      const colour = channels(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1)
        return colour;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  };
  const pale = new Map(), seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.offsetParent)
      continue;
    const behind = background(element), key = [style.color, behind, style.fontSize, style.fontWeight].join('/');
    if (seen.has(key))
      continue;
    seen.add(key);
    const [a, b] = [luminance(channels(style.color)), luminance(behind)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5))
      pale.set(key, `${((a + 0.05) / (b + 0.05)).toFixed(2)}: '${walker.currentNode.data.trim().slice(0, 40)}'`);
  }
  return [...pale.values()];
})()"""


def emulate(browser, width, dark):
    """Changes size and colours of the page that is shown."""
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 700)
    browser.call("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    browser.settle()


def look(browser, page):
    """The complaints about one page."""
    wrong = []
    browser.show(page, 390, 800, dark=False)
    wrong += [f"390 pixels: {text}" for text in browser.value(TOO_WIDE)]
    wrong += [f"contrast in light {text}" for text in browser.value(TOO_PALE)]
    emulate(browser, 1280, dark=True)
    wrong += [f"1280 pixels: {text}" for text in browser.value(TOO_WIDE)]
    wrong += [f"contrast in dark {text}" for text in browser.value(TOO_PALE)]
    folder = page.parent.resolve().as_uri()
    wrong += [text for text in browser.problems() if not text.startswith(folder + "/")]
    return [f"{page.name}: {text}" for text in wrong]


def use(browser, site):
    """What a reader does: searches, copies a command, changes the colours."""
    wrong = []
    browser.show(site / "tutorial.html", 1280, 800)
    browser.key("/")
    browser.type("timed kernels")
    browser.until("document.querySelectorAll('#found a').length > 0")
    if not browser.value("document.querySelector('#found a').href.includes('speed.html')"):
        wrong.append("search: 'timed kernels' does not find speed.html first, but " + browser.text("#found"))
    wrong += [f"contrast of the search {text}" for text in browser.value(TOO_PALE)]
    browser.key("ArrowDown")
    browser.key("Enter")
    browser.until("location.pathname.endsWith('/speed.html') && document.readyState === 'complete'")

    browser.show(site / "tutorial.html", 1280, 800)
    browser.value("copied = null; copyText = async (text) => { copied = text; }")
    browser.value("document.querySelector('.copy').click()")
    copied = browser.value("copied")
    if copied != "export PATH=~/opt/inlay/bin:$PATH\nmkdir ~/first && cd ~/first\n":
        wrong.append(f"copy: the text is {copied!r}")
    selected = browser.value("(() => { getSelection().selectAllChildren(document.querySelector('.commands pre')); "
                             "return getSelection().toString(); })()")
    if selected.strip() != copied.strip():
        wrong.append(f"selection: the text is {selected!r}")

    browser.click("#theme")
    browser.click("#theme")
    if browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)":
        wrong.append("colours: two clicks do not make the page dark")
    browser.value("localStorage.clear()")
    return wrong


def main():
    site, wrong = pathlib.Path(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder, Browser(folder) as browser:
        pictures.take(browser, site)
        pages = sorted(site.glob("*.html"))
        for page in pages:
            wrong += look(browser, page)
        wrong += use(browser, site)
    for text in wrong:
        print("FAIL", text)
    print(f"{len(pages)} pages seen, {len(wrong)} wrong")
    return bool(wrong)


sys.exit(main())
