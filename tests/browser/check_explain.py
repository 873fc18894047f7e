"""check_explain.py - the lesson of qkv explain in a browser: the script's numbers are the library's
for many settings of the switches, and the page works by keys, own numbers, own words and masks."""
import json
import math
import os
import re
import subprocess
import sys

from browser import Browser, check, finish, near

qkv, folder = sys.argv[1:3]
shots = os.environ["QKV_SHOTS"]
page = os.path.join(folder, "lesson.html")


def write(path, *arguments):
    subprocess.run([qkv, "explain", "--out", path, *arguments], check=True)
    html = open(path, encoding="utf-8").read()
    return json.loads(re.search(r'id="lesson">(.*?)</script>', html).group(1))


def script(b):
    """The script's matrices and titles of the state that is switched on, as qkv writes them."""
    return b.js("const list = lesson.compute(lesson.state), hide = (x) => x.map((row) => row.map("
                "(v) => v === -Infinity ? null : v));"
                "return [Object.fromEntries(list.map((m) => [m.key, hide(m.x)])),"
                "Object.fromEntries(list.map((m) => [m.key, m.title])),"
                "list.map((m) => m.key)]")


def tables(b):
    """What the page shows: key -> [caption, texts of the cells]."""
    return b.js("return Object.fromEntries([...document.querySelectorAll('table[data-key]')].map("
                "(t) => [t.dataset.key, [t.caption.textContent, [...t.tBodies[0].rows].map((r) =>"
                "[...r.querySelectorAll('td')].map((c) => c.textContent))]]))")


def looks(rows):
    """Texts of numbers with their digits hidden: the last one may be rounded from f32 or double."""
    return [[re.sub(r"[0-9]", "0", text) for text in row] for row in rows]


def values(rows):
    return [[None if text == "\u2212\u221e" else float(text) for text in row] for row in rows]


def put(b, field, text):
    """What pasting the text into the field does."""
    b.js("const f = document.querySelector(args[0]); f.value = args[1];"
         "f.dispatchEvent(new Event('input'))", field, text)


def switch(b, heads=1, **on):
    """Sets the switches as a user does: a list by its keys, boxes by clicks."""
    b.js("const h = document.getElementById('heads'); h.value = args[0];"
         "h.dispatchEvent(new Event('change'))", str(heads))
    for name in ("scaled", "causal", "biases", "with-positions"):
        wanted = on.get(name, name == "scaled")
        if b.js("return document.getElementById(args[0]).checked", name) != wanted:
            b.click("#" + name)


usual = write(page)
settings = [({}, []),
            ({"scaled": False}, ["--scale", "1"]),
            ({"causal": True}, ["--causal"]),
            ({"heads": 2}, ["--heads", "2"]),
            ({"heads": 4, "causal": True, "biases": True},
             ["--heads", "4", "--causal", "--biases"]),
            ({"biases": True, "scaled": False}, ["--biases", "--scale", "1"]),
            ({"with-positions": True}, ["--positions"]),
            ({"heads": 2, "causal": True, "biases": True, "with-positions": True},
             ["--heads", "2", "--causal", "--biases", "--positions"])]

with Browser() as b:
    seconds = b.open(page)
    check(seconds < 2, f"the page opens within 2 s: {seconds:.1f}")
    for on, arguments in settings:
        other = os.path.join(folder, "other.html")
        c = write(other, *arguments)
        switch(b, **on)
        numbers, titles, order = script(b)
        name = " ".join(arguments) or "as it is"
        check(order == list(c["matrices"]), f"{name}: the same matrices: {order}")
        check(titles == c["titles"], f"{name}: the same titles: {titles} {c['titles']}")
        for key, x in c["matrices"].items():
            near(numbers.get(key), x, 4e-6, f"{name}: {key}")
        shown = tables(b)
        static = {}
        html = open(other, encoding="utf-8").read()
        for key, title, body in re.findall(
                r'<table class="matrix" data-key="(\w+)"><caption>(.*?)</caption>.*?<tbody>(.*?)'
                r'</tbody>', html, re.S):
            rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
            static[key] = [title, rows]
        check(sorted(static) == sorted(shown), f"{name}: the same tables")
        for key, (title, rows) in static.items():
            check(title == shown[key][0] and looks(rows) == looks(shown[key][1]),
                  f"{name}: {key} looks like {shown[key]}, not {rows}")
            near(values(rows), values(shown[key][1]), 1.01e-4, f"{name}: {key} as shown")
    check(abs(float(usual["matrices"]["output"][0][0]) - 2.4965) < 1e-4, "the first output")

    # b_K moves no weight.
    switch(b)
    plain = script(b)[0]["weights_1"]
    switch(b, biases=True)
    b.js("for (const w of ['b_Q', 'b_V', 'b_O']) lesson.state.own[w] = [[0, 0, 0, 0]];"
         "lesson.render()")
    near(script(b)[0]["weights_1"], plain, 1e-12, "b_K changes no weight")
    b.js("lesson.state.own = {}; lesson.render()")

    # By keys alone: from the theme's button through the contents to the switches.
    b.open(page)
    b.js("document.getElementById('heads').focus()")
    b.key("Down")
    check(b.js("return lesson.state.heads") == 2, "a key chooses the number of heads")
    b.key("Tab", "Tab", "Space", "Tab", "Space")
    check(b.js("return [lesson.state.scaled, lesson.state.hidden[0][1]]") == [False, True],
          "keys switch the scale off and the mask on")
    check("not scaled, 15 of 36 keys hidden" in b.js("return document.getElementById('status')"
                                                     ".textContent"), "the status says so")
    check(b.js("return document.getElementById('status').getAttribute('role')") == "status", "live")
    check(b.js("return document.querySelectorAll('td.changed').length") > 50, "changes are marked")

    # The mask, cell by cell.
    b.js("document.querySelector('[data-mask=\"2,0\"]').focus()")
    b.key("Enter")
    check(script(b)[0]["weights_1"][2][0] == 0, "a hidden key has weight 0")
    check(b.js("return document.activeElement.dataset.mask") == "2,0", "the focus stays")
    check(b.js("return document.activeElement.getAttribute('aria-label')") == "hide The from sat",
          "and says what it does")
    check(not b.js("return document.getElementById('causal').checked"), "no longer causal")
    b.js("for (let j = 0; j < 6; j++) lesson.state.hidden[1][j] = true; lesson.render()")
    check(script(b)[0]["weights_1"][1] == [0] * 6, "a row that sees nothing has no weights")

    # Own numbers and words.
    b.open(page)
    b.click("#controls summary")
    put(b, "#own-X", "1 0\n0 1\n1 1")
    numbers = script(b)[0]
    check(numbers["X"] == [[1, 0], [0, 1], [1, 1]], "own X, of another size")
    check(len(numbers["weights_1"]) == 3 and len(numbers["W_Q"]) == 2, "all follows")
    put(b, "#own-X", "1 0\n0 x")
    check(b.js("return document.getElementById('own-X').getAttribute('aria-invalid')") == "true",
          "what is no number is told")
    check(script(b)[0]["X"] == [[1, 0], [0, 1], [1, 1]], "and changes nothing")
    put(b, "#own-W_Q", "2 0\n0 2")
    check(script(b)[0]["Q"] == [[2, 0], [0, 2], [2, 2]], "own weights")
    b.type("#words", "<b>one</b> two three four")
    b.key("Tab")
    check(b.js("return document.querySelector('table[data-key=X] th').textContent") == "<b>one</b>",
          "words are text")
    check(b.js("return document.querySelectorAll('table[data-key=X] tr').length") == 4, "four rows")
    b.js("document.getElementById('width').value = '8';"
         "document.getElementById('width').dispatchEvent(new Event('change'))")
    check(len(script(b)[0]["output"][0]) == 8, "another width")

    b.open(page)
    switch(b, heads=2, causal=True)
    b.js("document.getElementById('step-mask').scrollIntoView()")
    b.screenshot(os.path.join(shots, "explain.png"))
    for name in ("waves", "encoding", "products"):
        box = b.js("const r = document.querySelector('#' + args[0] + ' svg')"
                   ".getBoundingClientRect(); return [r.width, r.height]", name)
        check(box[0] > 300 and box[1] > 150, f"{name} is drawn: {box}")
    b.js("document.getElementById('positions').scrollIntoView()")
    b.screenshot(os.path.join(shots, "explain_sinusoids.png"))
    offsets = b.js("return [...document.querySelectorAll('#offsets tbody tr')].map((r) =>"
                   "[...r.cells].map((c) => c.textContent))")
    for k, low, high, cosines, off in offsets:
        check(low == high == cosines, f"offset {k}: products {low} to {high}, {cosines}")
        check(float(off) < 1e-12, f"offset {k}: the rotation is {off} off")
    ranks = b.js("return [...document.querySelectorAll('#ranks tbody tr')].map((r) =>"
                 "[...r.cells].map((c) => c.textContent))")
    check(ranks[1] == ["6 × 4", "4"] and ranks[3] == ["80 × 8", "8"], f"ranks {ranks}")
    check(b.js("return document.querySelectorAll('#errata ~ details').length") == 6, "errata")
    # The shift of positions by another offset, by keys.
    b.js("document.getElementById('offset').focus()")
    b.key("Right", "Right")
    shift = b.js("return [...document.querySelectorAll('#shift tbody tr')].map((r) =>"
                 "[...r.querySelectorAll('td')].map((c) => Number(c.textContent)))")
    near(shift, [[math.cos(3), math.sin(3), 0, 0], [-math.sin(3), math.cos(3), 0, 0],
                 [0, 0, math.cos(0.03), math.sin(0.03)], [0, 0, -math.sin(0.03), math.cos(0.03)]],
         5.1e-6, "M_3")
    said = b.js("return document.querySelector('output').textContent")
    found = re.search(r"at most (\S+) from PE.*is (\S+) to (\S+)\.$", said)
    check(found and float(found[1]) < 1e-12, f"the largest difference: {said}")
    near([float(found[2]), float(found[3])], [math.cos(3) + math.cos(0.03)] * 2, 1e-6, said)

    b.media("type", "print")
    check(b.js("return getComputedStyle(document.getElementById('controls')).display") == "none",
          "no switches on paper")
    check(b.js("return document.querySelector('#errata ~ details table').getBoundingClientRect()"
               ".height") > 100, "what is folded is printed")
    b.screenshot(os.path.join(shots, "explain_print.png"))

# Own words on the command line are text too.
hostile = write(os.path.join(folder, "hostile.html"), "--words",
                "</script><b>x</b> \"'&\x1b\u202e y")
with Browser(dark=True) as b:
    b.open(os.path.join(folder, "hostile.html"))
    check(b.js("return lesson.given.words") == hostile["words"], "words are what was given")
    check(b.js("return document.querySelectorAll('main b').length") == 0, "no markup came of them")
    check(b.js("return document.querySelector('table[data-key=X]').rows[1].cells[0].textContent") ==
          "\"'&\\x1b\\u202e", "what cannot be seen is shown")
    b.js("document.getElementById('step-softmax').scrollIntoView()")
    b.screenshot(os.path.join(shots, "explain_dark.png"))
finish()
