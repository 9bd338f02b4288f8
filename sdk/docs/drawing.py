#!/usr/bin/env python3
"""Draws a page with a graph, as inlay explain --html writes it, as a picture in SVG for light and dark.

  drawing.py PAGE.html OUT.svg [--size WIDTHxHEIGHT] [--colour provider|time|operator] [--node NAME] [--all]

Headless Chromium lays the page out in WIDTH by HEIGHT pixels, by default 860x590; buttons and fields are left out. --node
chooses a node, so that the page shows the answers of the providers for it; with --all these are beside the whole graph,
in place of the lists. README shows the model that finds lines in samples/quickstart.sh; in build/quickstart/models:
  inlay explain ch_PP-OCRv4_det_infer.onnx --intra-threads 1 --html page.html
  drawing.py page.html sdk/docs/explain.svg --colour time --node p2o.Conv.61 --all
  drawing.py page.html sdk/docs/explain-narrow.svg --size 390x830 --colour time --node p2o.Conv.61"""
import argparse
import html
import json
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/report"))

from browser import Browser  # noqa: E402: the path above


def number(x):
    return f"{x:.1f}".removesuffix(".0")


def hexadecimal(colour):
    """A colour of CSS as #rrggbb."""
    if colour.startswith("#"):
        return colour
    return "#" + "".join(f"{round(float(part)):02x}" for part in re.findall(r"[\d.]+", colour)[:3])


class Drawing:
    def __init__(self, width, height):
        self.size = width, height
        self.colours, self.clips = {}, {}

    def paint(self, kind, light, dark):
        """The name of the class that has these colours as its fill or stroke."""
        return self.colours.setdefault((kind, hexadecimal(light), hexadecimal(dark)), f"c{len(self.colours)}")

    def shape(self, light, dark):
        names = [self.paint(kind, light[kind], dark[kind]) for kind in ("fill", "stroke") if light.get(kind)]
        if not light.get("fill"):
            names.append("n")
        attributes = {"class": " ".join(names)}
        if light.get("alpha", 1) != 1:
            attributes["opacity"] = f"{light['alpha']:.2g}"
        if light.get("stroke"):
            attributes["stroke-width"] = number(light["width"])
        if light.get("dash"):
            attributes["stroke-dasharray"] = " ".join(map(number, light["dash"]))
        if light["kind"] == "text":
            attributes |= {"x": number(light["x"]), "y": number(light["y"]), "font-size": number(light["px"]),
                           "textLength": number(light["w"])}
            if light["bold"]:
                attributes["font-weight"] = "600"
        elif light["kind"] == "rect":
            attributes |= {"x": number(light["x"]), "y": number(light["y"]), "width": number(light["w"]),
                           "height": number(light["h"])}
            if light["r"]:
                attributes["rx"] = number(light["r"])
        else:
            attributes["d"] = light["d"]
        text = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        return f'<text {text}>{html.escape(light["text"])}</text>' if light["kind"] == "text" else f"<{light['kind']} {text}/>"

    def write(self, light, dark, title):
        """The picture: each shape of the page in light has its colours in dark from the same shape there."""
        if [shape["kind"] for shape in light] != [shape["kind"] for shape in dark]:
            sys.exit("drawing.py: the page has other shapes in dark than in light")
        body, clip = [], None
        for one, other in zip(light, dark):
            box = one["clip"]
            if "y" in one and one["y"] - one.get("px", 0) > box["y"] + box["h"]:
                continue  # below what the page shows
            key = tuple(number(box[k]) for k in "xywh")
            if key != clip:
                body += ["</g>"] * (clip is not None)
                body.append(f'<g clip-path="url(#{self.clips.setdefault(key, f"k{len(self.clips)}")})">')
                clip = key
            body.append(self.shape(one, other))
        width, height = self.size
        rules = {theme: "".join(f".{name}{{{kind}:{colours[theme]}}}" for (kind, *colours), name in self.colours.items())
                 for theme in (0, 1)}
        clips = "".join('<clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>'.format(name, *key)
                        for key, name in self.clips.items())
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="system-ui, DejaVu Sans, sans-serif">', f"<title>{html.escape(title)}</title>",
            f"<style>.n{{fill:none}}{rules[0]}@media(prefers-color-scheme:dark){{{rules[1]}}}</style>", clips, *body, "</g>",
            "</svg>", ""])


def lay_out(browser, page, width, height, dark, node=None, colour=None, whole=False):
    """Opens a page as the picture shows it."""
    browser.show(page, width, height, dark=dark)
    rules = "#tools, .close { display: none !important }"
    if whole:
        rules += "#side { display: none !important } #viewer #detail { position: relative }"
    browser.value("document.head.append(Object.assign(document.createElement('style'), "
                  f"{{ textContent: {json.dumps(rules)} }}))")
    if colour:
        browser.choose("#shade", colour)
    browser.settle()
    if node:
        browser.value(f"location.hash = '#node=' + encodeURIComponent({json.dumps(node)})")
        browser.until("!document.getElementById('detail').hidden")
    if whole or not node:
        browser.value("document.getElementById('fit').click()")
    browser.settle()


def draw(browser, page, width, height, **choices):
    """The picture of a page as text."""
    shapes = []
    for dark in (False, True):
        lay_out(browser, page, width, height, dark, **choices)
        shapes.append(browser.value((HERE / "drawing.js").read_text()))
    return Drawing(width, height).write(*shapes, browser.value("document.title"))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("page")
    parser.add_argument("out")
    parser.add_argument("--size", default="860x590")
    parser.add_argument("--node")
    parser.add_argument("--colour")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    width, height = map(int, args.size.split("x"))
    with tempfile.TemporaryDirectory() as folder, Browser(folder) as browser:
        pathlib.Path(args.out).write_text(draw(browser, args.page, width, height, node=args.node,
                                               colour=args.colour, whole=args.all))


if __name__ == "__main__":
    main()
