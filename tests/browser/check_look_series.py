"""check_look_series.py - pages of `qkv look` on a filler of gaps and a classifier of series: the
curves, weights and classes shown are those of the commands and of the captured file."""
import json
import os
import subprocess
import sys

from browser import Browser, check, finish, near
from looks import READY, Looks, row, weights_of

qkv, work = sys.argv[1:3]
shots = os.environ["QKV_SHOTS"]
looks = Looks(qkv, work)
gaps, series = (os.path.join(work, name) for name in ("gaps.csv", "series.csv"))
with open(os.path.join(work, "names"), encoding="utf-8") as names:
    NAMES = names.read().split("\n")[:2] # as the header of gaps.csv means them


def run(*words):
    return subprocess.run([qkv, *words, "--quiet"], check=True, stdout=subprocess.PIPE).stdout


def harmless(b, what):
    check(b.js("return typeof window.hacked") == "undefined", what + ": hostile text did not run")
    check(b.js("return document.querySelectorAll('script[src], img, b, i').length") == 0,
          what + ": hostile text made no element")


def visible(text):
    """Hostile text as a page shows it: what turns text around as escapes."""
    return text.replace("\u202e", "\\u202e")


def curves(b):
    """Rows and values of each curve of the explorer's drawing, in the series' numbers."""
    return b.js("""
        const drawing = document.querySelector('#explorer0 svg.series');
        const numbers = [...drawing.querySelectorAll('text')].map(e => e.textContent);
        const [high, low, first, last] = [Number(numbers[0]), Number(numbers[1]),
            Number(numbers[2].slice(4)), Number(numbers[3].slice(4))];
        const frame = drawing.querySelector('rect');
        const at = (name) => Number(frame.getAttribute(name));
        return [...drawing.querySelectorAll('path')].map(p =>
            [...p.getAttribute('d').matchAll(/[ML]([^,]+),([-0-9.]+)/g)].map(m => [
                Math.round(first - 1.5 + (m[1] - at('x')) / at('width') * (last - first + 1)),
                low + (high - low) * (1 - (m[2] - at('y')) / at('height'))]));
        """)


def chosen_column(b, column):
    b.js("const e = document.querySelector('#explorer0 select[aria-label=column]'); "
         "e.value = arguments[0]; e.dispatchEvent(new Event('change'))", column)


with Browser() as b:
    # A filler: both curves of each column against the file and against what `qkv fill` fills in.
    looks.by_hand(b, "filler", [gaps], 0, 4)
    harmless(b, "filler")
    answer = looks.look("filler", gaps)
    filled = json.loads(run("fill", os.path.join(work, "filler"), gaps, "--json"))
    check(filled["columns"] == NAMES, f"names: {filled['columns']}")
    check(b.js("return [...document.querySelectorAll('#explorer0 select[aria-label=column] "
               "option')].map(e => e.textContent)") == [visible(n) for n in NAMES],
          "names of columns are shown")
    first, read = answer["series"]["first"], answer["series"]["read"]
    check((first, read) == (252, 48), "the last rows are read")
    missing = [(i, c) for i, c in filled["filled"] if i >= first]
    check({c for _, c in missing} == {0, 1} and len(missing) == 8, f"gaps: {missing}")
    for c in (0, 1):
        chosen_column(b, c)
        known, _, made = curves(b)
        values = [r[c] for r in filled["rows"]]
        tolerance = 0.01 * (max(values[first:]) - min(values[first:]))
        gap = [i for i, column in missing if column == c]
        check([i for i, _ in known] == [i for i in range(first, 300) if i not in gap],
              "the series is a curve, with gaps")
        near([v for _, v in known], [values[i] for i, _ in known], tolerance, "the known values")
        check([i for i, _ in made] == gap, f"what is filled in is another: {made}")
        near([v for _, v in made], [values[i] for i in gap], tolerance, "and is qkv fill's")
    for layer, head, at in ((1, 2, 0), (0, -1, 11)):
        looks.agree(b, "filler", [gaps], 0, "encoder_attentions", layer, head, at)
    w = row(b)
    shades = "return [...document.querySelectorAll('#explorer0 rect.band')].map(e => " \
             "Number(e.getAttribute('fill-opacity')))"
    near(b.js(shades), [0.8 * v / max(w) for v in w], 6e-4, "bands are shaded by weight")
    check(b.js("return document.querySelector('#explorer0 rect.band title').textContent") ==
          f"rows 253-256: {w[0]:.3f}", "a band has its number")
    b.js("const e = document.querySelector('.controls input'); e.click()")
    b.js("const s = document.getElementById('explorer0').look; s.s.layer = 1; s.s.head = 2; "
         "s.s.at = 3; s.show()")
    inside = weights_of(os.path.join(work, "inside.safetensors"))
    near(row(b), [inside("encoder_attentions.1", 2, i)[3] for i in range(12)], 1.1e-3,
         "who attends to it")
    b.screenshot(os.path.join(shots, "look-filler.png"), whole=True)

    # A classifier: the first series, and its classes as `qkv classify` tells them.
    looks.by_hand(b, "classifier", [series], 0, 2)
    harmless(b, "classifier")
    probs = json.loads(run("classify", os.path.join(work, "classifier"), series, "--json")
                       .splitlines()[0])["probs"]
    table = b.js("return [...document.querySelectorAll('h2#classes ~ div table tbody tr, "
                 "h2#classes ~ table tbody tr')].slice(0, 2)"
                 ".map(r => [...r.children].map(e => e.textContent))")
    check(sorted(t for t, _ in table) == sorted(visible(t) for t in probs), f"classes: {table}")
    near([float(p) for _, p in table], sorted(probs.values(), reverse=True), 5.1e-5,
         "and their probabilities")
    with open(series, encoding="ascii") as f:
        values = [float(v) for v in f.readline().split(",")]
    check(b.js("return document.querySelectorAll('#explorer0 rect.band').length") ==
          len(values) // 2 // 4 + 1, "a band for each token, the last of which is not full")
    check(looks.look("classifier", series)["axes"][0]["labels"][-1] == "rows 17-18",
          "the last token has two rows")
    for c in (0, 1):
        chosen_column(b, c)
        known = curves(b)[0]
        near([v for _, v in known], values[c::2], 0.01 * (max(values[c::2]) - min(values[c::2])),
             "the first series of the file")
    looks.agree(b, "classifier", [series], 0, "encoder_attentions", 1, 3, 4)
    b.screenshot(os.path.join(shots, "look-classifier.png"), whole=True)
    b.media("prefers-color-scheme", "dark")
    b.open(os.path.join(work, "filler.html"))
    b.wait(READY, "filler: dark")
    b.screenshot(os.path.join(shots, "look-filler-dark.png"))
finish()
