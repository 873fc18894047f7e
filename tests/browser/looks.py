"""looks.py - what checks of pages of `qkv look` share: the command's answers and files, and the
explorer of a page, by script and by hand."""
import json
import os
import struct
import subprocess

from browser import check, near

READY = "[...document.querySelectorAll('[id^=explorer]')].every(e => e.dataset.ready)"
STATE = "const s = document.getElementById('explorer' + arguments[0]).look.s; return s."


class Looks:
    """`qkv look` of models in a folder."""

    def __init__(self, qkv, work):
        self.qkv, self.work = qkv, work

    def _run(self, model, *arguments):
        return subprocess.run([self.qkv, "look", os.path.join(self.work, model), *arguments,
                               "--quiet"], check=True, stdout=subprocess.PIPE).stdout

    def look(self, model, *arguments):
        """The command's answer in JSON."""
        return json.loads(self._run(model, *arguments, "--json", "--least", "1e-9"))

    def page_of(self, model, *arguments):
        path = os.path.join(self.work, model + ".html")
        self._run(model, *arguments, "--out", path)
        return path

    def agree(self, b, model, given, attention, name, layer, head, at):
        """The page's row is the command's, but for rounding and weights that are not on the
        page."""
        choose(b, attention, layer, head, at)
        wanted = self.look(model, *given, "--attention", name, "--layer", str(layer), "--head",
                           str(head), "--at", str(at))["row"]["weights"]
        near(row(b, attention), wanted, 1.1e-3, f"{model}: {name} {layer} {head} {at}")

    def by_hand(self, b, model, given, attention, at, head=1, tensor=None):
        """Opens the page; of an attention, layer 0: the position `at` (of patches the cell) by the
        mouse, the next one by keys. The numbers listed are those of the captured file's tensor."""
        kept = os.path.join(self.work, "inside.safetensors")
        b.open(self.page_of(model, *given, "--capture", kept))
        b.wait(READY, model + ": the explorers")
        found = self.look(model, *given)
        name = found["attentions"][attention]["name"]
        axis = next(x for x in found["axes"] if x["name"] == found["attentions"][attention]
                    ["queries"])
        inside = weights_of(kept)
        box, what = f"#explorer{attention}", f"{model}: {name}"
        for label, value in (("layer", 0), ("head", head)):
            b.js("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                 "e.dispatchEvent(new Event('change'))", f"{box} select[aria-label={label}]", value)
        kind = b.js("const e = document.querySelector(arguments[0]); "
                    "return e ? e.getAttribute('class') : 'tokens'",
                    f"{box} svg.patches, {box} svg.series")
        place = {"patches": f"{box} svg.patches rect[data-cell='%d']",
                 "series": f"{box} svg.series rect[data-at='%d']",
                 "tokens": f"{box} .tokens button[data-at='%d']"}[kind]
        if kind != "patches":
            b.hover(place % (at + 1))
            check(b.js(STATE + "at", attention) == at + 1, what + ": the mouse above it")
        b.click(place % at)
        b.js("const e = document.querySelector(arguments[0]); if (e) e.focus()",
             f"{box} svg.patches, {box} svg.series")
        cells = axis.get("cells", list(range(axis["count"] - axis.get("lead", 0))))
        behind = min((c for c in cells if c > at), default=at)
        for step, cell in (("a click", at), ("Right", behind)):
            if step == "Right":
                b.key(step)
            chosen = b.js(STATE + "at", attention)
            wanted = axis.get("lead", 0) + cells.index(cell)
            check(chosen == wanted, f"{what}: {step} chooses {chosen}, not {wanted}")
            weights = inside(tensor or f"{name}.0", head, chosen)
            shown = listed(b, attention)
            near([p for _, p in shown], [weights[j] for j, _ in shown], 1.1e-3,
                 f"{what}: the numbers of {chosen}")
            near([p for _, p in shown], sorted(weights, reverse=True)[:len(shown)], 1.1e-3,
                 f"{what}: the largest of {chosen}")
            check(len(shown) >= min(12, sum(w > 2e-3 for w in weights)), what + ": all are listed")
        before = b.js("return document.activeElement.outerHTML")
        b.key("Tab")
        check(before != b.js("return document.activeElement.outerHTML"), what + ": Tab leaves it")


def listed(b, attention=0):
    """Positions and weights in the explorer's list."""
    return b.js(f"return [...document.querySelectorAll('#explorer{attention} .bars li')].map(e => "
                "[Number(e.dataset.at), Number(e.querySelector('.number').textContent)])")


def row(b, attention=0):
    return b.js(f"return Array.from(document.getElementById('explorer{attention}').look.weights())")


def weights_of(path):
    """Rows of attention weights in a capture's file, as (tensor, head, position) -> list."""
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])

    def read(tensor, head, at):
        entry = header[tensor]
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
