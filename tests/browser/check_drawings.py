"""check_drawings.py - a page of drawings.c in a browser: what is shown, saved, and never run."""
import os
import struct
import sys
import xml.dom.minidom
import zlib

from browser import Browser, check, finish

folder = sys.argv[1]
shots = os.environ["QKV_SHOTS"]
page = os.path.join(folder, "page.html")
HOSTILE = ("x</script><script>window.hacked = 1</script>\" onload='hacked = 1' "
           "<img src=x onerror=hacked=1>\\x1b[31m\\u202e\\xff")


def colors(png):
    """The different colours of a PNG that Chromium has written (8 bits, RGBA, not interlaced)."""
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, form = struct.unpack(">IIBB", png[at + 8:at + 18])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    check((depth, form) in ((8, 6), (8, 2)), f"the PNG's format: {depth}, {form}")
    n = 4 if form == 6 else 3
    rows, before, seen = zlib.decompress(data), bytes(width * n), set()
    for y in range(height):
        filter_, line = rows[y * (width * n + 1)], rows[y * (width * n + 1) + 1:][:width * n]
        out = bytearray(line)
        for i in range(width * n):
            a, b = (out[i - n] if i >= n else 0), before[i]
            c = before[i - n] if i >= n else 0
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            out[i] = (out[i] + (0, a, b, (a + b) // 2, near)[filter_]) & 255
        before = bytes(out)
        seen.update(before[i:i + 3] for i in range(0, width * n, n))
    return width, height, seen


with Browser() as b:
    seconds = b.open(page)
    check(seconds < 5, f"opened in {seconds:.1f} s")
    check(b.js("return document.title") == HOSTILE, "the title is the text")
    check(b.js("return document.querySelector('h1').textContent") == HOSTILE, "so is the heading")
    check(b.js("return typeof window.hacked") == "undefined", "hostile text did not run")
    check(b.js("return document.querySelectorAll('img').length") == 0, "nor did it become markup")
    check(b.js("return document.querySelector('#content > p').textContent") == HOSTILE, "text")
    check(b.js("return document.querySelector('#loss svg').getAttribute('aria-label')") == HOSTILE,
          "the drawing's name")
    check(b.js("return document.querySelector('[data-key=cells] title').textContent") ==
          "The, 0: 1", "a cell's name")
    check(b.js("return document.querySelectorAll('[data-key^=map-]').length") == 16, "maps")
    check(b.js("return document.querySelectorAll('nav a').length") == 3, "contents")
    check(b.js("return window.own") == 3, "a script that was added runs, and reads JSON")
    check(b.js("return getComputedStyle(document.getElementById('own')).color") == "rgb(1, 2, 3)",
          "a style that was added")
    check(b.js("return qkv.json('json').text") == "</script><script>hacked = 1</script>", "JSON")
    floats = b.js("const v = new Float32Array((await qkv.bytes('bytes')).buffer);"
                  "return [v.length, v[0], v[4999]]")
    check(floats == [5000, 0, 99], f"bytes: {floats}")
    b.screenshot(os.path.join(shots, "drawings.png"), whole=True)

    # What the policy forbids does not happen.
    check(b.js("const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
               "document.body.append(s); return typeof window.hacked") == "undefined", "scripts")
    check(b.js("return fetch('https://example.com/').then(() => 'went', () => 'stopped')") ==
          "stopped", "network")
    b.console()  # those two are complained of

    # Themes: the system's, and the button, which the keyboard reaches.
    light = b.js("return getComputedStyle(document.documentElement).backgroundColor")
    check(light == "rgb(255, 255, 255)", f"light: {light}")
    b.key("Tab", "Tab")
    check(b.js("return document.activeElement.id") == "theme", "the second Tab is on the button")
    check(b.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus")
    b.key("Enter")
    dark = b.js("return getComputedStyle(document.documentElement).backgroundColor")
    check(dark == "rgb(20, 23, 28)", f"dark: {dark}")
    check(b.js("return getComputedStyle(document.querySelector('#loss .qf-text')).fill") ==
          "rgb(230, 233, 237)", "a drawing's text in the dark theme")
    b.media("type", "print")
    check(b.js("return getComputedStyle(document.documentElement).backgroundColor") ==
          "rgb(255, 255, 255)", "paper is white")
    check(b.js("return getComputedStyle(document.querySelector('.save')).display") == "none",
          "no buttons on paper")
    b.media("type", "screen")
    b.click("#theme")

    # Saving.
    b.click("#loss .save button:nth-child(1)")
    svg = b.download(".svg")
    document = xml.dom.minidom.parseString(svg)
    check(document.documentElement.tagName == "svg", "an SVG file")
    check(b"class=" not in svg and b"rgb(0, 114, 178)" in svg, "with its own colours")
    check(document.getElementsByTagName("title")[0].firstChild.data == HOSTILE, "and its name")
    b.click("#heat .save button:nth-child(2)")
    width, height, seen = colors(b.download(".png"))
    size = b.js("const v = document.querySelector('#heat svg').viewBox.baseVal;"
                "return [v.width, v.height]")
    check(abs(width - 2 * size[0]) <= 2 and abs(height - 2 * size[1]) <= 2, "the PNG's size")
    check(bytes((255, 255, 255)) in seen and len(seen) > 50, f"{len(seen)} colours")
    cell = b.js("return getComputedStyle(document.querySelector('[data-key=cells] rect')).fill")
    check(bytes(int(v) for v in cell[4:-1].split(",")) in seen, f"the first cell's {cell}")
    b.click("#picture .save button:nth-child(2)")
    check(b.download(".png")[:4] == b"\x89PNG", "a picture is saved too")

with Browser(dark=True, script=False) as b:
    b.open(page)
    b.screenshot(os.path.join(shots, "drawings_dark.png"))
    tree = b.cdp("Accessibility.getFullAXTree")["nodes"]
    names = [(n["role"]["value"], n.get("name", {}).get("value")) for n in tree if "role" in n]
    check(("image", "All heads") in names, "without JavaScript the figures are there, with names")
    check(("heading", HOSTILE) in names, "and the heading")
    check(not any(role == "button" for role, _ in names), "no button that would do nothing")

alone = os.path.join(folder, "alone.svg")
xml.dom.minidom.parse(alone)
for dark, expected in ((False, "rgb(27, 31, 36)"), (True, "rgb(230, 233, 237)")):
    with Browser(dark=dark) as b:
        b.open(alone)
        check(b.js("return getComputedStyle(document.querySelector('text')).fill") == expected,
              "the file's colours follow the system's theme")
finish()
