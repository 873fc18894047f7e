/* look.js - the explorer of a page that qkv look makes: a position, head and layer are chosen; its
 * weights are shown on the tokens or on the patches, and as numbers. */
"use strict";
(() => {
    const data = qkv.json("look"), {el, svg} = qkv;
    const percent = (x) => (100 * x).toFixed(1) + " %";
    const number = (x) => x.toFixed(3);

    // ---- the maps ----
    async function unpack(i) {
        const a = data.attentions[i], axis = data.axes[a.query];
        const raw = await qkv.bytes("maps" + i);
        const all = new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength >> 1);
        const rows = axis.labels.length, maps = a.layers * a.heads + (a.rollout ? 1 : 0);
        const start = new Uint32Array(maps * rows + 1);
        for (let r = 0; r < maps * rows; r++) start[r + 1] = start[r] + all[r];
        const keys = all.slice(maps * rows, maps * rows + a.entries);
        for (let r = 0; r < maps * rows; r++)
            for (let e = start[r] + 1; e < start[r + 1]; e++) keys[e] += keys[e - 1];
        const weights = all.subarray(maps * rows + a.entries);
        let norms = null;
        if (a.norms) {
            const bytes = await qkv.bytes("norms" + i);
            norms = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
        }
        return {rows, start, keys, weights, norms};
    }

    /* Weights of a row, or (who = "to") of a column. layer -1: rollout; head -1: the mean. */
    function weightsOf(a, m, s) {
        const keys = data.axes[a.key].labels.length;
        const out = new Float64Array(s.who === "to" ? m.rows : keys);
        const heads = s.layer < 0 ? [a.layers * a.heads]
            : s.head >= 0 ? [s.layer * a.heads + s.head]
            : Array.from({length: a.heads}, (_, h) => s.layer * a.heads + h);
        for (const map of heads) {
            const norm = (key) =>
                s.byNorm && m.norms && s.layer >= 0 ? m.norms[map * keys + key] : 1;
            if (s.who === "to") {
                for (let i = 0; i < m.rows; i++)
                    for (let e = m.start[map * m.rows + i]; e < m.start[map * m.rows + i + 1]; e++)
                        if (m.keys[e] === s.at)
                            out[i] += m.weights[e] / 65535 / heads.length * norm(s.at);
                continue;
            }
            const r = map * m.rows + s.at;
            for (let e = m.start[r]; e < m.start[r + 1]; e++)
                out[m.keys[e]] += m.weights[e] / 65535 / heads.length * norm(m.keys[e]);
        }
        return out;
    }

    // ---- tokens ----
    function tokenList(axis, name, choose) {
        const buttons = axis.labels.map((label, i) =>
            el("button", {type: "button", tabindex: i ? -1 : 0, "data-at": i,
                title: `${i}: ${label}`, "aria-label": `${name} ${i}: ${label}`}, label || " "));
        const box = el("div", {class: "tokens", role: "group", "aria-label": name}, ...buttons);
        const pick = (e) => {
            const b = e.target.closest("button");
            if (b) choose(Number(b.dataset.at), e.type);
        };
        box.addEventListener("click", pick);
        box.addEventListener("pointerover", pick);
        box.addEventListener("focusin", pick);
        box.addEventListener("keydown", (e) => {
            const step = {ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9}[e.key];
            const at = Number(e.target.dataset.at);
            if (step === undefined || Number.isNaN(at)) return;
            e.preventDefault();
            buttons[Math.max(0, Math.min(buttons.length - 1, at + step))].focus();
        });
        return {box, buttons, paint(w, most) {
            buttons.forEach((b, i) => {
                const share = w && most > 0 ? Math.round(85 * w[i] / most) : 0;
                b.style.backgroundColor =
                    share ? `color-mix(in srgb, var(--s0) ${share}%, transparent)` : "";
            });
        }, choose(at) {
            buttons.forEach((b, i) => {
                const on = i === at;
                if ((b.getAttribute("aria-pressed") === "true") !== on)
                    b.setAttribute("aria-pressed", on);
                b.tabIndex = on || (at < 0 && !i) ? 0 : -1;
            });
        }};
    }

    // ---- patches ----
    function patchGrid(axis, name, choose, href) {
        const unit = Math.max(6, Math.floor(384 / Math.max(axis.rows, axis.columns)));
        const width = unit * axis.columns, height = unit * axis.rows;
        const place = new Map();
        for (let i = axis.lead; i < axis.labels.length; i++)
            place.set(axis.cells ? axis.cells[i - axis.lead] : i - axis.lead, i);
        const photo = document.querySelector("#image0 image");
        const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0,
            class: "patches", role: "application",
            "aria-label": `${name}: arrow keys choose a patch`});
        if (photo || href)
            drawing.append(svg("image", {href: href || photo.getAttribute("href"), width, height,
                preserveAspectRatio: "none", "image-rendering": href ? "pixelated" : "auto"}));
        const cells = [];
        for (let c = 0; c < axis.rows * axis.columns; c++) {
            const rect = svg("rect", {x: c % axis.columns * unit, width: unit, height: unit,
                y: Math.floor(c / axis.columns) * unit, class: "cell", "data-cell": c,
                fill: "var(--bg)", stroke: "var(--grid)", "stroke-width": "0.5",
                "fill-opacity": place.has(c) ? 0 : 0.85});
            const tip = svg("title", {}, `${Math.floor(c / axis.columns)},${c % axis.columns}`);
            rect.append(tip);
            cells.push({rect, tip});
            drawing.append(rect);
        }
        const frame = svg("rect", {class: "chosen", width: unit, height: unit,
            visibility: "hidden"});
        drawing.append(frame);
        let chosen = -1;
        const take = (c) => { if (place.has(c)) choose(place.get(c), "click"); };
        drawing.addEventListener("click", (e) => {
            if (e.target.dataset.cell !== undefined) take(Number(e.target.dataset.cell));
        });
        drawing.addEventListener("keydown", (e) => {
            const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: axis.columns,
                ArrowUp: -axis.columns}[e.key];
            if (step === undefined) return;
            e.preventDefault();
            const total = axis.rows * axis.columns;
            for (let c = Math.max(0, chosen) + step; c >= 0 && c < total; c += step)
                if (place.has(c)) { take(c); break; }
        });
        const figure = el("figure", {id: `${name.replace(/\W+/g, "-")}-heat`}, drawing);
        const scale = el("figcaption", {});
        figure.append(scale);
        qkv.saves(figure);
        const box = el("div", {}, figure);
        const leads = axis.labels.slice(0, axis.lead).map((label, i) => {
            const button = el("button", {type: "button", "aria-label": label, title: label},
                label.replace("condition ", ""));
            button.addEventListener("click", () => choose(i, "click"));
            return button;
        });
        if (axis.lead)
            box.prepend(el("p", {}, axis.labels[0] === "[CLS]"
                ? axis.lead > 1 ? "Tokens before the patches:" : "Class token:"
                : axis.lead > 1 ? "The condition's codes:" : "Before the image:"),
            el("div", {class: "tokens lead"}, ...leads));
        return {box, buttons: [], paint(w, most, hidden) {
            let peak = 0;
            for (const i of place.values()) peak = Math.max(peak, w ? w[i] : 0);
            place.forEach((i, c) => {
                const share = w && peak > 0 ? w[i] / peak : 0;
                const {rect, tip} = cells[c];
                const shut = hidden && hidden(i);
                rect.setAttribute("fill", w && !shut ? "var(--s1)" : "var(--bg)");
                rect.setAttribute("fill-opacity",
                    shut ? "0.7" : w ? (0.8 * share).toFixed(3) : "0");
                tip.textContent = `${axis.labels[i]}: ${w ? number(w[i]) : ""}`;
            });
            leads.forEach((button, i) => {
                const share = w && most > 0 ? Math.round(85 * w[i] / most) : 0;
                button.style.backgroundColor =
                    share ? `color-mix(in srgb, var(--s1) ${share}%, transparent)` : "";
            });
            scale.textContent = w ? `Full colour: ${number(peak)}; no colour: 0.` : "";
        }, choose(at) {
            chosen = -1;
            place.forEach((i, c) => { if (i === at) chosen = c; });
            frame.setAttribute("visibility", chosen < 0 ? "hidden" : "visible");
            frame.setAttribute("x", Math.max(0, chosen) % axis.columns * unit);
            frame.setAttribute("y", Math.floor(Math.max(0, chosen) / axis.columns) * unit);
            leads.forEach((button, i) => button.setAttribute("aria-pressed", at === i));
        }};
    }

    // ---- source and target, with lines ----
    function alignment(a, m, s, figure) {
        const from = data.axes[a.query].labels, to = data.axes[a.key].labels;
        if (from.length > 80 || to.length > 80) return;
        const line = 18, height = line * Math.max(from.length, to.length) + 8;
        const drawing = svg("svg", {viewBox: `0 0 480 ${height}`, width: 480, height,
            role: "img", "aria-label": `${a.name}: lines from queries to keys`});
        const cut = (t) => t.length > 22 ? t.slice(0, 21) + "\u2026" : t;
        const put = (labels, x, anchor) => labels.forEach((t, i) => drawing.append(
            svg("text", {x, y: line * i + 15, "text-anchor": anchor, "font-size": 12,
                class: "qt", fill: "var(--text)"}, cut(t))));
        for (let i = 0; i < from.length; i++) {
            const w = weightsOf(a, m, {...s, at: i, who: "from"});
            w.forEach((v, j) => {
                if (v > 0.05)
                    drawing.append(svg("line", {x1: 170, y1: line * i + 11, x2: 310,
                        y2: line * j + 11, stroke: i === s.at ? "var(--mark)" : "var(--s0)",
                        "stroke-width": i === s.at ? 2.5 : 1.5,
                        "stroke-opacity": Math.min(1, v).toFixed(3)}));
            });
        }
        put(from, 165, "end");
        put(to, 315, "start");
        figure.replaceChildren(drawing, el("figcaption", {}, "Queries on the left, keys on the " +
            "right; lines of weights above 0.05."));
        qkv.saves(figure);
    }

    // ---- predictions ----
    function lens(at) {
        const p = data.predictions, box = document.getElementById("lens");
        if (!p || !box) return;
        const n = data.axes[p.axis].labels.length, words = new Map();
        p.ids.forEach((id, i) => words.set(id, p.words[i]));
        const table = el("table", {}), body = el("tbody", {});
        for (let layer = 0; layer < p.layers; layer++) {
            const row = el("tr", {}, el("th", {scope: "row"},
                layer === p.layers - 1 ? "output" : `before layer ${layer}`));
            for (let k = 0; k < p.top; k++) {
                const g = 2 * ((layer * n + at) * p.top + k), id = p.guesses[g];
                const share = p.guesses[g + 1] / 1e4;
                const cell = el("td", {}, id < 0 ? "" : words.get(id) + " ",
                    el("small", {}, id < 0 ? "" : percent(share)));
                cell.style.backgroundColor =
                    `color-mix(in srgb, var(--s0) ${Math.round(60 * share)}%, transparent)`;
                row.append(cell);
            }
            body.append(row);
        }
        table.append(el("caption", {}, `Position ${at}: ${data.axes[p.axis].labels[at]}` +
            (data.axes[p.axis].rows ? ", predicting the code after it" : "")), body);
        box.replaceChildren(el("div", {class: "scroll"}, table));
    }

    // ---- one attention ----
    async function explorer(i) {
        const a = data.attentions[i], box = document.getElementById("explorer" + i);
        const m = await unpack(i), query = data.axes[a.query], key = data.axes[a.key];
        const s = {layer: a.layers - 1, head: -1, who: "from", byNorm: false,
            at: query.lead && !a.causal ? 0 : query.rows && !query.cells
                ? query.lead + Math.floor(query.rows / 2) * query.columns +
                    Math.floor(query.columns / 2)
                : Math.floor(query.labels.length / 2), fixed: false};
        const option = (value, text) => el("option", {value}, text);
        const select = (label, options, change) => {
            const list = el("select", {"aria-label": label}, ...options);
            list.addEventListener("change", () => { change(Number(list.value)); show(); });
            return list;
        };
        const layers = select("layer", [
            ...Array.from({length: a.layers}, (_, l) =>
                option(l, a.names ? a.names[l] : `layer ${l}`)),
            ...(a.rollout ? [option(-1, "rollout")] : [])], (v) => { s.layer = v; });
        const heads = select("head", [option(-1, "mean of heads"),
            ...Array.from({length: a.heads}, (_, h) => option(h, `head ${h}`))],
        (v) => { s.head = v; });
        layers.value = s.layer;
        const box2 = (label, change) => {
            const input = el("input", {type: "checkbox"});
            input.addEventListener("change", () => { change(input.checked); show(); });
            return el("label", {}, input, " " + label);
        };
        const who = box2("who attends to it", (on) => { s.who = on ? "to" : "from"; });
        const norm = box2("by value norm", (on) => { s.byNorm = on; });
        const make = (axis, name, choose) =>
            (axis.span ? qkv.seriesPlot(data.series) : axis.rows ? patchGrid : tokenList)(axis,
                name, choose);
        const choose = (at, how) => {
            if (how === "pointerover" && s.fixed) return;
            if (how === "click") s.fixed = true;
            s.at = at;
            show();
        };
        const one = a.query === a.key;
        const queries = make(query, query.name, choose);
        const keys = one ? queries : make(key, key.name, (at, how) => {
            if (s.who === "to") choose(at, how);
        });
        const list = el("ul", {class: "bars", "aria-live": "polite"});
        const title = el("h4", {});
        const lines = el("figure", {id: `lines${i}`});
        box.replaceChildren(
            el("div", {class: "controls"}, layers, heads, who, ...(a.norms ? [norm] : [])),
            el("div", {class: "row"},
                el("div", {class: "side"}, el("h4", {}, query.name), queries.box,
                    ...(one ? [] : [el("h4", {}, key.name), keys.box, lines])),
                el("div", {class: "side"}, title, list)));

        function show() {
            const picked = s.who === "to" ? key : query, other = s.who === "to" ? query : key;
            s.at = Math.min(s.at, picked.labels.length - 1);
            const w = weightsOf(a, m, s), most = w.reduce((x, y) => Math.max(x, y), 0);
            (s.who === "to" ? keys : queries).choose(s.at);
            if (!one) (s.who === "to" ? queries : keys).choose(-1);
            if (!one) (s.who === "to" ? keys : queries).paint(null, 0);
            /* of a causal model: positions that cannot see, or be seen by, the chosen one */
            (s.who === "to" ? queries : keys).paint(w, most, (i) =>
                a.causal && (s.who === "to" ? i < s.at : i > s.at));
            heads.disabled = s.layer < 0;
            title.textContent = s.who === "to"
                ? `Who attends to ${s.at}: ${picked.labels[s.at]}`
                : `${s.at}: ${picked.labels[s.at]} attends to`;
            const order = Array.from(w.keys()).filter((j) => w[j] > 0)
                .sort((x, y) => w[y] - w[x]).slice(0, 12);
            list.replaceChildren(...order.map((j) => {
                const bar = el("span", {class: "bar"});
                bar.style.width = Math.max(1, 100 * w[j] / most) + "%";
                return el("li", {"data-at": j}, el("span", {class: "name"},
                    `${j}: ${other.labels[j]}`),
                el("span", {class: "number"}, number(w[j])), bar);
            }));
            if (!one) alignment(a, m, s, lines);
            if (data.predictions && data.predictions.axis === a.query && s.who === "from")
                lens(s.at);
        }

        document.querySelectorAll(`[data-key^="map${i}-"]`).forEach((g) => {
            const [, layer, head] = g.dataset.key.split("-").map(Number);
            const open = () => {
                s.layer = layer;
                s.head = head;
                layers.value = layer;
                heads.value = head;
                show();
                box.scrollIntoView({block: "nearest"});
            };
            g.setAttribute("tabindex", "0");
            g.setAttribute("role", "button");
            g.addEventListener("click", open);
            g.addEventListener("keydown", (e) => {
                if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open(); }
            });
        });
        show();
        box.dataset.ready = "true";
        box.look = {s, show, weights: () => weightsOf(a, m, s)};
    }

    qkv.patchGrid = patchGrid;
    data.attentions.forEach((_, i) => explorer(i));
})();
