"""check_look.py - pages of `qkv look` in a browser: what is chosen is what the command prints."""
import base64
import json
import os
import struct
import subprocess
import sys

from browser import Browser, check, finish, near

qkv, work, photo = sys.argv[1:4]
shots = os.environ["QKV_SHOTS"]
HOSTILE = "the <script>window.hacked = 1</script> \"cat'\" \u202e sat <img src=x onerror=hacked=1>"
READY = "[...document.querySelectorAll('[id^=explorer]')].every(e => e.dataset.ready)"


def look(model, *arguments):
    """The command's answer in JSON."""
    done = subprocess.run([qkv, "look", os.path.join(work, model), *arguments, "--json",
                           "--least", "1e-9", "--quiet"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def page_of(model, *arguments):
    path = os.path.join(work, model + ".html")
    subprocess.run([qkv, "look", os.path.join(work, model), *arguments, "--out", path, "--quiet"],
                   check=True)
    return path


def row(b, attention=0):
    return b.js(f"return Array.from(document.getElementById('explorer{attention}').look.weights())")


def weights_of(path):
    """Rows of attention weights in a capture's file, as (name, layer, head, position) -> list."""
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])

    def read(name, layer, head, at):
        entry = header[f"{name}.{layer}"]
        _, _, rows, keys = entry["shape"]
        start = 8 + size + entry["data_offsets"][0] + 4 * (head * rows + at) * keys
        return struct.unpack(f"<{keys}f", data[start:start + 4 * keys])
    return read


def choose(b, attention, layer, head, at):
    b.js("const e = document.getElementById('explorer' + arguments[0]), s = e.look.s;"
         "[s.layer, s.head, s.at] = [...arguments].slice(1); e.look.show()", attention, layer, head,
         at)


def press(b, css):
    """A click on the element, wherever it is on the page."""
    b.js("document.querySelector(arguments[0])"
         ".dispatchEvent(new MouseEvent('click', {bubbles: true}))", css)


def patch_error(b, model, expected, at, rank):
    """The largest difference of a patch in the drawing to the image with that one code, decoded."""
    columns = expected["columns"]
    codes = [p["code"] for p in expected["positions"]]
    codes[at] = expected["positions"][at]["next"][rank]["code"]
    grid, image = os.path.join(work, "grid.csv"), os.path.join(work, "grid.png")
    with open(grid, "w", encoding="ascii") as f:
        for i in range(0, len(codes), columns):
            print(*codes[i:i + columns], sep=",", file=f)
    subprocess.run([qkv, "decode", os.path.join(work, model, "vqgan"), grid, "--out", image,
                    "--quiet"], check=True)
    with open(image, "rb") as f:
        url = "data:image/png;base64," + base64.b64encode(f.read()).decode()
    return b.js("""
        const [url, rank, row, column, rows, columns] = arguments;
        const shown = document.querySelectorAll('#prior-next-figure svg image')[rank + 1];
        const pixels = async (href) => {
            const image = new Image(), canvas = document.createElement('canvas');
            image.src = href;
            await image.decode();
            canvas.width = image.naturalWidth, canvas.height = image.naturalHeight;
            const paper = canvas.getContext('2d'), w = image.naturalWidth / columns;
            paper.drawImage(image, 0, 0);
            const h = image.naturalHeight / rows;
            return paper.getImageData(column * w, row * h, w, h).data;
        };
        return Promise.all([pixels(url), pixels(shown.getAttribute('href'))]).then(([x, y]) =>
            x.length === y.length ? x.reduce((m, v, i) => Math.max(m, Math.abs(v - y[i])), 0) : -1);
        """, url, rank, at // columns, at % columns, expected["rows"], columns)


def agree(b, model, given, attention, name, layer, head, at):
    """The page's row is the command's, but for rounding and weights that are not on the page."""
    choose(b, attention, layer, head, at)
    wanted = look(model, *given, "--attention", name, "--layer", str(layer), "--head", str(head),
                  "--at", str(at))["row"]["weights"]
    near(row(b, attention), wanted, 1.1e-3, f"{model}: {name} {layer} {head} {at}")


with Browser() as b:
    # A language model: hostile text is shown; tokens by mouse and keys; heads by a click.
    seconds = b.open(page_of("lm", HOSTILE))
    check(seconds < 2, f"opened in {seconds:.1f} s")
    b.wait(READY, "lm: the explorer")
    check(b.js("return typeof window.hacked") == "undefined", "hostile text did not run")
    tokens = look("lm", HOSTILE)["axes"][0]["labels"]
    check(b.js("return document.querySelectorAll('.tokens button').length") == len(tokens),
          "a button a token")
    for layer, head, at in ((0, 0, 3), (1, 1, len(tokens) - 1), (1, -1, 5)):
        agree(b, "lm", [HOSTILE], 0, "attentions", layer, head, at)
    b.click(".tokens button[data-at='4']")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 4, "a click chooses")
    b.key("Right")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 5, "so do keys")
    check(b.js("return document.querySelector('#lens caption').textContent").startswith(
        "Position 5"), "the lens follows")
    shown = b.js("return [...document.querySelectorAll('.bars li')].map(e => "
                 "[Number(e.dataset.at), Number(e.querySelector('.number').textContent)])")
    weights = row(b)
    near([p for _, p in shown], [weights[j] for j, _ in shown], 6e-4, "the numbers in the list")
    b.click("[data-key='map0-0-1']")
    check(b.js("const s = document.getElementById('explorer0').look.s; return [s.layer, s.head]")
          == [0, 1], "a small map opens its head")
    b.js("document.querySelector('.controls input').click()")
    column = row(b)
    at = b.js("return document.getElementById('explorer0').look.s.at")
    wanted = [look("lm", HOSTILE, "--layer", "0", "--head", "1", "--at", str(i))["row"]["weights"]
              [at] for i in (at, len(tokens) - 1)]
    near([column[at], column[-1]], wanted, 1.1e-3, "who attends to it")
    norms = look("lm", HOSTILE)["panels"]["stream"]["norms"]
    check(b.js("return qkv.json('stream-data').norms") == norms, "the numbers of a panel")
    check(b.js("return document.querySelectorAll('#stream-figure [data-key=stream] rect').length")
          == len(norms) * len(tokens), "the drawing of a panel")
    b.screenshot(os.path.join(shots, "look-lm.png"))

    # BERT: predictions of the hidden word.
    b.open(page_of("mlm", "the [MASK] sat"))
    b.wait(READY, "mlm: the explorer")
    agree(b, "mlm", ["the [MASK] sat"], 0, "attentions", 1, 0, 2)

    # A translator: three kinds of attention, lines between source and target.
    given = ["the cat sat", "--second", "die katze sass"]
    b.open(page_of("tr", *given))
    b.wait(READY, "tr: the explorers")
    for i, name in enumerate(("encoder_attentions", "decoder_attentions", "cross_attentions")):
        agree(b, "tr", given, i, name, 0, 1, 2)
    check(b.js("return document.querySelectorAll('#lines2 line').length") > 0, "alignment lines")
    b.screenshot(os.path.join(shots, "look-translator.png"))

    # Images: patches by a click and by keys; the class token; hidden patches cannot be chosen.
    for model in ("vit", "cct", "mae", "color"):
        b.open(page_of(model, photo))
        b.wait(READY, model + ": the explorer")
        agree(b, model, [photo], 0, look(model, photo)["attentions"][0]["name"], 0, 1, 2)
        check(b.js("return document.querySelectorAll('svg.patches').length") > 0, "patches")
        press(b, "svg.patches rect[data-cell='5']")
        before = b.js("return document.getElementById('explorer0').look.s.at")
        b.js("document.querySelector('svg.patches').focus()")
        b.key("Right")
        after = b.js("return document.getElementById('explorer0').look.s.at")
        if after == before:  # the last one that is visible
            b.key("Left")
            after = b.js("return document.getElementById('explorer0').look.s.at")
        check(before != after, model + ": arrow keys move the patch")
        check(b.js("return document.querySelector('svg.patches image') !== null"),
              model + ": the image is beneath")
        b.screenshot(os.path.join(shots, f"look-{model}.png"))

    # A VQGAN: heat maps over the codes; cells that have the same code by mouse and keys; panels.
    among = ["--among", os.path.join(work, "bars-images-idx3-ubyte")]
    b.open(page_of("vqgan", photo, *among))
    b.wait(READY, "vqgan: the explorers")
    for i, name in enumerate(("encoder_attentions", "decoder_attentions")):
        agree(b, "vqgan", [photo], i, name, 0, 0, 5)
    check(b.js("return document.querySelector('#explorer1 option').textContent")
          == "decoder.mid.attn_1", "a layer of a VQGAN has its name")
    panels = look("vqgan", photo, *among)["panels"]
    check(list(panels) == ["codes-grid", "codes-usage", "codes-alone", "codes-where",
                           "codes-nearest", "codes-together", "codes-verdict"], "panels")
    for name, numbers in panels.items():
        check(b.js("return qkv.json(arguments[0] + '-data')", name) == numbers,
              f"{name}: the page's numbers")
        check(b.js("return document.querySelector('#' + arguments[0] + '-figure svg') !== null",
                   name), f"{name}: a drawing")
    codes = panels["codes-grid"]["codes"]
    shown = b.js("return [...document.querySelectorAll('[data-key^=code-] text')]"
                 ".map(e => Number(e.textContent))")
    check(shown == [c for line in codes for c in line], "every cell shows its code")
    b.hover("[data-key='code-1,2']")
    alone = panels["codes-alone"]["codes"].index(codes[1][2])
    check(b.js("return document.querySelector('#codes-grid-line image').getAttribute('href') === "
               "document.querySelectorAll('#codes-alone-figure image')[arguments[0]]"
               ".getAttribute('href')", alone), "the code alone is beside what is said of it")
    line = b.js("return document.getElementById('codes-grid-line').textContent")
    here = sum(row_.count(codes[1][2]) for row_ in codes)
    total = panels["codes-usage"]["counts"][codes[1][2]]
    check(line == f"1,2: code {codes[1][2]}, {here} of 16 patches; {total} of 1024 in the set.",
          f"what is said of a cell: {line}")
    check(b.js("return document.querySelectorAll('[data-key^=code-].same').length") == here,
          "cells of the same code are marked")
    press(b, "[data-key='code-1,2'] text")
    b.js("document.querySelector('#codes-grid-figure svg').focus()")
    b.key("Down")
    check(b.js("return document.getElementById('codes-grid-line').textContent").startswith(
        f"2,2: code {codes[2][2]},"), "arrow keys choose a cell")
    for name in ("input", "reconstruction"):
        check(len(panels["codes-verdict"][name]) == 2, "a logit a patch")
    b.screenshot(os.path.join(shots, "look-vqgan.png"), whole=True)

    # A prior: the codes that it expected, where it looked for them.
    given = [photo, "--top", "3"]
    b.open(page_of("prior", *given))
    b.wait(READY, "prior: the explorer")
    agree(b, "prior", given, 0, "attentions", 0, 1, 7)
    found = look("prior", *given)
    expected = found["panels"]["prior-next"]
    check(b.js("return qkv.json('prior-next-data')") == expected, "prior-next: the numbers")
    check(b.js("return document.querySelectorAll('#prior-next-figure svg image').length") == 4,
          "an image for each rank, and the image")
    b.hover("#prior-next-explorer rect[data-cell='6']")
    state = ("return [...document.querySelectorAll('#prior-next-explorer .codes li')].map(e => "
             "[Number(e.dataset.code), parseFloat(e.querySelector('.number').textContent)])")

    def listed(at):
        p = expected["positions"][at]
        return [[p["code"], 100 * p["p"]]] + [[n["code"], 100 * n["p"]] for n in p["next"]]

    near(b.js(state), listed(6), 6e-3, "the distribution at a position, by the mouse")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 6,
          "the position before it is the one that looked for it")
    check(b.js("return document.querySelector('#prior-next-explorer .codes li svg')"
               ".getAttribute('viewBox')") == "2 1 1 1", "the patch of that position")
    press(b, "#prior-next-explorer rect[data-cell='9']")
    b.js("document.querySelector('#prior-next-explorer svg.patches').focus()")
    b.key("Right")
    near(b.js(state), listed(10), 6e-3, "and by keys")
    check(patch_error(b, "prior", expected, 10, 1) == 0, "a patch is what its code decodes to")
    near([n["p"] for n in found["predictions"][10]],
         [n["p"] for n in expected["positions"][10]["next"]], 1e-5, "the lens ends with the same")
    check(b.js("return [...document.querySelectorAll('#explorer0 rect.cell')].filter(e => "
               "e.getAttribute('fill-opacity') === '0.7').map(e => Number(e.dataset.cell))")
          == [10, 11, 12, 13, 14], "codes that it could not see are covered")
    b.screenshot(os.path.join(shots, "look-prior.png"), whole=True)

    # A forecaster: encoder, causal decoder and cross-attention over the series, drawn as a curve.
    given = [os.path.join(work, "series.csv"), "--hold-back", "10"]
    kept = os.path.join(work, "inside.safetensors")
    b.open(page_of("forecast", *given, "--capture", kept))
    b.wait(READY, "forecast: the explorers")
    inside = weights_of(kept)
    for i, name in enumerate(("encoder_attentions", "decoder_attentions", "cross_attentions")):
        agree(b, "forecast", given, i, name, 1, 2, 1)
        near(row(b, i), inside(name, 1, 2, 1), 1.1e-3, f"forecast: the captured {name}")
    answer = look("forecast", *given)
    check(answer["series"]["first"] == 266 and len(answer["series"]["values"]) == 34,
          "the last 34 rows are shown")
    check(answer["series"]["values"][24:] == [[i * i % 37, 40 - i % 24] for i in range(290, 300)],
          "rows held back are the truth")
    forecast = subprocess.run([qkv, "forecast", os.path.join(work, "forecast"), "--file",
                               os.path.join(work, "known.csv"), "--json"], check=True,
                              stdout=subprocess.PIPE).stdout
    near([v for r in answer["series"]["answers"][24:] for v in r],
         [v for r in json.loads(forecast)["rows"] for v in r], 1e-4, "qkv forecast's forecast")
    check(b.js("return document.querySelectorAll('#explorer0 rect.band').length") == 6,
          "a band for each token")
    b.js("document.querySelector('#explorer0 rect.band[data-at=\"3\"]')"
         ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 3, "a click chooses")
    b.js("document.querySelector('#explorer0 svg.series').focus()")
    b.key("Right")
    check(b.js("return document.getElementById('explorer0').look.s.at") == 4, "so do keys")
    w = row(b)
    shades = b.js("return [...document.querySelectorAll('#explorer0 rect.band')]"
                  ".map(e => Number(e.getAttribute('fill-opacity')))")
    near(shades, [0.8 * v / max(w) for v in w], 6e-4, "bands are shaded by weight")
    b.js("const e = document.querySelector('#explorer0 select[aria-label=column]'); e.value = 1;"
         "e.dispatchEvent(new Event('change'))")
    check(b.js("return document.querySelectorAll('#explorer0 svg.series path').length") == 3,
          "what was read, the truth and the forecast are curves")
    b.screenshot(os.path.join(shots, "look-forecast.png"))
finish()
