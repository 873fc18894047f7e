/* look_codes.js - pages of VQGANs and priors: cells that have the same code, and the codes that a
 * prior expected at a position, as patches. */
"use strict";
(() => {
    const {el, svg} = qkv;
    const block = (id) => document.getElementById(id) ? qkv.json(id) : null;
    const steps = (columns) => ({ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns,
        ArrowUp: -columns});

    /* The cell of an image of all cells. */
    function cut(href, data, at, name) {
        const box = svg("svg", {width: 48, height: 48, role: "img", "aria-label": name,
            viewBox: `${at % data.columns} ${Math.floor(at / data.columns)} 1 1`});
        box.append(svg("image", {href, width: data.columns, height: data.rows,
            preserveAspectRatio: "none", "image-rendering": "pixelated"}));
        return box;
    }

    // ---- the grid of codes ----
    function sameCodes() {
        const data = block("codes-grid-data"), usage = block("codes-usage-data");
        if (!data) return;
        const figure = document.getElementById("codes-grid-figure");
        const drawing = figure.querySelector("svg"), all = data.codes.flat();
        const cells = [...drawing.querySelectorAll("[data-key^='code-']")];
        const alone = block("codes-alone-data");
        const sheet = document.querySelectorAll("#codes-alone-figure svg image");
        const line = el("p", {id: "codes-grid-line", "aria-live": "polite"},
            "Point at a cell, or use the arrow keys, to see where else its code is.");
        let chosen = -1, fixed = false; /* by a click or a key: the pointer leaves it alone */
        function choose(at) {
            const code = all[at], here = all.filter((c) => c === code).length;
            chosen = at;
            cells.forEach((cell, i) => cell.classList.toggle("same", all[i] === code));
            const where = `${Math.floor(at / data.columns)},${at % data.columns}: code ` +
                `${code}, ${here} of ${all.length} patches` +
                (usage && usage.images > 1
                    ? `; ${usage.counts[code]} of ${usage.patches} in the set.` : ".");
            const image = alone ? sheet[alone.codes.indexOf(code)] : null;
            line.replaceChildren(...(image ? [cut(image.getAttribute("href"),
                {rows: 1, columns: 1}, 0, `code ${code} alone`)] : []), where);
        }
        const pick = (e) => {
            const cell = e.target.closest("[data-key^='code-']");
            fixed = fixed || e.type === "click";
            if (cell && (e.type === "click" || !fixed)) choose(cells.indexOf(cell));
        };
        drawing.addEventListener("click", pick);
        drawing.addEventListener("pointerover", pick);
        drawing.setAttribute("tabindex", "0");
        drawing.setAttribute("role", "application");
        drawing.addEventListener("keydown", (e) => {
            const step = steps(data.columns)[e.key];
            if (step === undefined) return;
            e.preventDefault();
            const at = chosen < 0 ? 0 : chosen + step;
            fixed = true;
            if (at >= 0 && at < all.length) choose(at);
        });
        figure.before(line);
    }

    // ---- what a prior expected ----
    function expected() {
        const data = block("prior-next-data");
        if (!data) return;
        const figure = document.getElementById("prior-next-figure");
        const images = [...figure.querySelectorAll("svg image")].map((i) => i.getAttribute("href"));
        const labels = data.positions.map((p) => `${p.row},${p.column}`);
        const grid = qkv.patchGrid({lead: 0, rows: data.rows, columns: data.columns, labels},
            "expected codes", choose, images[0]);
        const list = el("ul", {class: "bars codes", "aria-live": "polite"}), title = el("h4", {});
        const box = el("div", {class: "panel", id: "prior-next-explorer", role: "group",
            "aria-label": "What the prior expected at one position"},
        el("div", {class: "row"}, el("div", {class: "side"}, grid.box),
            el("div", {class: "side"}, title, list)));
        let fixed = false;

        function entry(image, at, code, p, most, name) {
            const bar = el("span", {class: "bar"});
            bar.style.width = Math.max(1, 100 * p / most) + "%";
            return el("li", {"data-code": code}, cut(images[image], data, at, `code ${code}`),
                el("span", {class: "name"}, name), el("span", {class: "number"},
                    (100 * p).toFixed(2) + " %"), bar);
        }
        function choose(at) {
            const p = data.positions[at], most = Math.max(p.p, ...p.next.map((n) => n.p));
            const look = document.getElementById("explorer0").look;
            const lead = qkv.json("look").axes[0].lead;
            grid.choose(at);
            title.textContent = `${p.row},${p.column}: the image has code ${p.code}, rank ` +
                `${p.rank}; entropy ${p.entropy.toFixed(2)} bits`;
            list.replaceChildren(entry(0, at, p.code, p.p, most, `the image's: ${p.code}`),
                ...p.next.map((n, k) => entry(k + 1, at, n.code, n.p, most, `code ${n.code}` +
                    (n.code === p.code ? ", the image's" : ""))));
            box.dataset.at = at;
            if (look) { /* where it looked for this code: the position before it */
                look.s.at = lead - 1 + at;
                look.show();
            }
        }
        const drawing = grid.box.querySelector("svg");
        for (const type of ["click", "keydown"])
            drawing.addEventListener(type, () => { fixed = true; });
        drawing.addEventListener("pointerover", (e) => {
            if (!fixed && e.target.dataset.cell !== undefined) choose(Number(e.target.dataset.cell));
        });
        figure.before(box);
        choose(Math.floor(data.rows / 2) * data.columns + Math.floor(data.columns / 2));
    }

    sameCodes();
    expected();
})();
