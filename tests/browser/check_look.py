"""check_look.py - pages of `qkv look` in a browser: what is chosen is what the command prints."""
import json
import os
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


def choose(b, attention, layer, head, at):
    b.js("const e = document.getElementById('explorer' + arguments[0]), s = e.look.s;"
         "[s.layer, s.head, s.at] = [...arguments].slice(1); e.look.show()", attention, layer, head,
         at)


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
        b.js("document.querySelector('svg.patches rect[data-cell=\"5\"]')"
             ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
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
finish()
