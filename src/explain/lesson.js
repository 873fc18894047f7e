/* lesson.js - the lesson alive: computes every matrix anew when a switch, a number, a word or the
 * mask changes, and puts it where the page has it. The page's own numbers are qkv's; a test compares
 * both. window.lesson = {state, compute, render} is for that test. */
"use strict";
(() => {
    const given = qkv.json("lesson"), superscripts = ["", "\u00b9", "\u00b2", "\u00b3", "\u2074",
        "\u2075", "\u2076", "\u2077", "\u2078"];
    const make = (rows, columns, entry) => Array.from({length: rows}, (_, i) =>
        Array.from({length: columns}, (_, j) => entry(i, j)));

    // What matrices are until the reader changes them (lesson.c has the same).
    const usual = {
        X: (i, j) => (i + j + 1) / 10, W_Q: (i, j) => (i + j + 1) / 10,
        W_K: (i, j) => (i + j + 5) / 10, W_V: (i, j) => (i + j + 9) / 10,
        W_O: (i, j) => Number(i === j), b_Q: (i, j) => (i + j + 1) / 10,
        b_K: (i, j) => -(i + j + 1) / 5, b_V: (i, j) => (i + j < 2 ? 0.5 : -0.5),
        b_O: (i, j) => (i + j) / 10};
    const rowsOf = (key, s) => key === "X" ? s.rows : key[0] === "b" ? 1 : s.width;

    const state = {rows: given.rows, width: given.width, heads: given.heads, scaled: given.scaled,
        biases: given.biases, positions: given.positions, words: given.words || null, own: {},
        hidden: make(given.rows, given.rows, (i, j) => given.causal && j > i)};
    for (const key of Object.keys(usual))
        if (given.matrices[key]) state.own[key] = given.matrices[key];

    const input = (key, s) => {
        const own = s.own[key], rows = rowsOf(key, s);
        return own && own.length === rows && own[0].length === s.width ? own
            : make(rows, s.width, usual[key]);
    };
    const word = (s, i) => s.words ? qkv.visible(s.words[i]) : String(i + 1);

    // ---- the computation ----
    const transpose = (a) => a[0].map((_, j) => a.map((row) => row[j]));
    const product = (a, b) => a.map((row) => b[0].map((_, j) =>
        row.reduce((sum, v, k) => sum + v * b[k][j], 0)));
    const map = (a, f) => a.map((row, i) => row.map((v, j) => f(v, i, j)));
    const columns = (a, from, to) => a.map((row) => row.slice(from, to));
    const softmax = (row) => {
        const most = Math.max(...row);
        if (most === -Infinity) return row.map(() => 0);
        const e = row.map((v) => Math.exp(v - most)), sum = e.reduce((x, y) => x + y, 0);
        return e.map((v) => v / sum);
    };
    const position = (d) => (p, c) => {
        const angle = p * Math.pow(10000, -2 * Math.floor(c / 2) / d);
        return c % 2 ? Math.cos(angle) : Math.sin(angle);
    };

    /* All matrices of a state, in the page's order. */
    function compute(s) {
        const list = [], d = s.width / s.heads, any = s.hidden.some((row) => row.some(Boolean));
        const add = (step, key, title, x, labels, head) => {
            const mark = s.heads > 1 && head ? superscripts[head] : "";
            list.push({step, key: head ? `${key}_${head}` : key, x, labels,
                title: title.replaceAll("^", mark)});
            return x;
        };
        let x = add("input", "X", "X", input("X", s), "rows");
        if (s.positions) {
            const pe = add("input", "PE", "PE", make(s.rows, s.width, position(s.width)), "rows");
            x = add("input", "XP", "X + PE", map(x, (v, i, j) => v + pe[i][j]), "rows");
        }
        const from = s.positions ? "(X + PE)" : "X", projected = {};
        const linear = (step, which, y) => {
            const w = add(step, `W_${which}`, `W_${which}`, input(`W_${which}`, s), "");
            const out = product(y, w);
            if (!s.biases) return out;
            const b = add(step, `b_${which}`, `b_${which}`, input(`b_${which}`, s), "");
            return map(out, (v, i, j) => v + b[0][j]);
        };
        for (const which of "QKV") projected[which] = linear("project", which, x);
        for (const which of "QKV")
            add("project", which, `${which} = ${from} W_${which}` +
                (s.biases ? ` + b_${which}` : ""), projected[which], "rows");
        const heads = [];
        for (let h = 1; h <= s.heads; h++) {
            const [q, k, v] = [..."QKV"].map((w) => columns(projected[w], (h - 1) * d, h * d));
            let a = add("scores", "scores", "Q^ K^\u1d40", product(q, transpose(k)), "both", h);
            a = add("scale", "scaled", s.scaled ? "Q^ K^\u1d40 / \u221ad_k"
                : "Q^ K^\u1d40, not scaled", map(a, (e) => s.scaled ? e / Math.sqrt(d) : e),
                "both", h);
            a = add("mask", "masked", any ? "S^: \u2212\u221e where a key is hidden"
                : "S^: every key is seen",
                map(a, (e, i, j) => s.hidden[i][j] ? -Infinity : e), "both", h);
            a = add("softmax", "weights", "A^ = softmax(S^)", a.map(softmax), "weights", h);
            heads.push(add("heads", "head", "A^ V^", product(a, v), "rows", h));
        }
        const both = heads[0].map((_, i) => heads.flatMap((head) => head[i]));
        add("heads", "concat", s.heads > 1 ? "heads side by side" : "one head", both, "rows");
        const out = linear("output", "O", both);
        add("output", "output", "output = heads W_O" + (s.biases ? " + b_O" : ""), out, "rows");
        return list;
    }

    // ---- the page ----
    const trim = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
    /* The fewest decimals, at most 4, that show all numbers of a matrix to f32's precision. */
    function decimals(a) {
        for (let n = 0; n < 4; n++) {
            const unit = 10 ** n, off = (v) => Math.abs(v - Math.round(v * unit) / unit);
            const exact = (v) => v === -Infinity || off(v) < 1e-6 * Math.max(1, Math.abs(v));
            if (a.flat().every(exact)) return n;
        }
        return 4;
    }
    const entry = (v, n) => v === -Infinity ? "\u2212\u221e"
        : v.toFixed(n).replace(/^-(0(\.0+)?)$/, "$1");
    function table(s, m, before) {
        const el = qkv.el, head = [], n = decimals(m.x), label = (scope, i) => el("th", {scope}, word(s, i));
        if (m.labels === "both" || m.labels === "weights")
            head.push(el("thead", {}, el("tr", {}, el("td"),
                ...m.x[0].map((_, j) => label("col", j)))));
        const body = m.x.map((row, i) => el("tr", {}, ...(m.labels ? [label("row", i)] : []),
            ...row.map((v, j) => {
                const text = entry(v, n), cell = el("td", {}, text);
                if (m.labels === "weights") cell.classList.add("h" + Math.floor(v * 20 + 0.5));
                const old = before && before.length === m.x.length && before[i][j];
                if (typeof old === "number" && entry(old, n) !== text)
                    cell.classList.add("changed");
                return cell;
            })));
        return el("table", {class: "matrix", "data-key": m.key}, el("caption", {}, m.title),
            ...head, el("tbody", {}, ...body));
    }

    let last = {};
    function render() {
        const list = compute(state), steps = {};
        for (const m of list) (steps[m.step] ||= []).push(table(state, m, last[m.key]));
        for (const [step, tables] of Object.entries(steps))
            document.getElementById(`step-${step}-matrices`).replaceChildren(...tables);
        last = Object.fromEntries(list.map((m) => [m.key, m.x]));
        document.getElementById("step-mask-matrices").append(maskTable());
        const row = Math.min(2, state.rows - 1), w = last.weights_1[row];
        const best = w.indexOf(Math.max(...w)), hidden = state.hidden.flat().filter(Boolean).length;
        document.getElementById("status").textContent =
            `${state.heads} ${state.heads > 1 ? "heads" : "head"}, ` +
            `${state.scaled ? "scaled" : "not scaled"}, ${hidden} of ${state.rows ** 2} keys ` +
            `hidden, biases ${state.biases ? "on" : "off"}, positions ` +
            `${state.positions ? "on" : "off"}. In head 1, \u201c${word(state, row)}\u201d looks ` +
            `most at \u201c${word(state, best)}\u201d: ${(100 * w[best]).toFixed(1)} %.`;
    }

    // ---- the mask ----
    function maskTable() {
        const el = qkv.el, shown = (h) => h ? "\u2212\u221e" : "0";
        const body = state.hidden.map((row, i) => el("tr", {}, el("th", {scope: "row"},
            word(state, i)), ...row.map((hidden, j) => {
            const b = el("button", {type: "button", "aria-pressed": hidden, "data-mask": `${i},${j}`,
                "aria-label": `hide ${word(state, j)} from ${word(state, i)}`}, shown(hidden));
            b.addEventListener("click", () => {
                state.hidden[i][j] = !state.hidden[i][j];
                render();
                causal();
                document.querySelector(`[data-mask="${i},${j}"]`).focus();
            });
            return el("td", {}, b);
        })));
        return el("table", {class: "matrix mask"}, el("caption", {}, "Mask: press to hide a key"),
            el("tbody", {}, ...body));
    }

    // ---- the switches ----
    const fields = {};
    const triangle = () => state.hidden.every((row, i) => row.every((h, j) => h === (j > i)));
    const causal = () => { fields.causal.checked = triangle(); };
    function box(name, text, get, set) {
        const field = qkv.el("input", {type: "checkbox", id: name});
        field.checked = get();
        field.addEventListener("change", () => { set(field.checked); render(); });
        fields[name] = field;
        return qkv.el("label", {}, field, text);
    }
    function choice(name, text, values, get, set) {
        const field = qkv.el("select", {id: name});
        const put = () => {
            field.replaceChildren(...values().map((v) => qkv.el("option", {value: v}, String(v))));
            field.value = get();
        };
        field.addEventListener("change", () => { set(Number(field.value)); resized(); });
        put();
        fields[name] = {put};
        return qkv.el("label", {}, text, field);
    }

    /* After a change of size: what no longer fits begins anew. */
    function resized() {
        const wasCausal = fields.causal.checked;
        if (state.width % state.heads) state.heads = 1;
        if (state.hidden.length !== state.rows)
            state.hidden = make(state.rows, state.rows, (i, j) => wasCausal && j > i);
        for (const key of Object.keys(state.own)) state.own[key] = input(key, state);
        fields.heads.put();
        fields.width.put();
        numbers();
        render();
        causal();
    }

    // ---- own numbers ----
    const area = {};
    const text = (a) => a.map((row) => row.map((v) => trim(v.toFixed(4))).join(" ")).join("\n");
    function read(key, value) {
        const rows = value.trim().split("\n").map((line) => line.trim().split(/[\s,]+/).map(Number));
        const wanted = rowsOf(key, state), wide = key === "X" && rows[0].length % 2 === 0 &&
            rows[0].length <= 16 && rows[0].length > 1 ? rows[0].length : state.width;
        if (rows.some((row) => row.some((v) => !Number.isFinite(v)))) return "numbers expected";
        if (rows.some((row) => row.length !== wide)) return `${wide} numbers a row expected`;
        if (key === "X" ? rows.length > 12 : rows.length !== wanted)
            return key === "X" ? "at most 12 rows" : `${wanted} rows expected`;
        return rows;
    }
    function edited(key) {
        const {field, error} = area[key], rows = read(key, field.value);
        const bad = typeof rows === "string";
        error.textContent = bad ? rows : "";
        field.setAttribute("aria-invalid", bad);
        if (bad) return;
        state.own[key] = rows;
        if (key !== "X" || (rows.length === state.rows && rows[0].length === state.width)) {
            render();
            return;
        }
        state.words = rows.length === state.rows ? state.words : null;
        state.rows = rows.length;
        state.width = rows[0].length;
        resized();
    }
    function numbers() {
        for (const key of Object.keys(usual))
            if (area[key].field !== document.activeElement)
                area[key].field.value = text(input(key, state));
    }
    function ownNumbers() {
        const boxes = Object.keys(usual).map((key) => {
            const error = qkv.el("span", {class: "error", role: "alert"});
            const field = qkv.el("textarea", {id: `own-${key}`, cols: 26, spellcheck: "false",
                rows: key[0] === "b" ? 1 : key === "X" ? 6 : 4});
            field.addEventListener("input", () => edited(key));
            area[key] = {field, error};
            return qkv.el("label", {}, key, field, error);
        });
        return qkv.el("details", {}, qkv.el("summary", {}, "Own numbers, own words"),
            qkv.el("p", {}, "A row a line. X may have up to 12 rows and an even width up to 16."),
            qkv.el("label", {}, "Words", wordsField()), qkv.el("div", {id: "own"}, ...boxes));
    }
    function wordsField() {
        const field = qkv.el("input", {type: "text", id: "words",
            value: state.words ? state.words.join(" ") : ""});
        field.addEventListener("change", () => {
            const words = field.value.trim().split(/\s+/).filter(Boolean).slice(0, 12);
            if (!words.length) return;
            state.words = words;
            state.rows = words.length;
            resized();
        });
        return field;
    }

    // ---- the shift of positions ----
    function shiftPanel() {
        const shift = document.getElementById("shift"), d = 4, count = 80, at = position(d);
        const row = (p) => Array.from({length: d}, (_, c) => at(p, c));
        const angle = (c) => Math.pow(10000, -2 * Math.floor(c / 2) / d);
        const turn = (k) => make(d, d, (i, j) => Math.floor(i / 2) !== Math.floor(j / 2) ? 0
            : i === j ? Math.cos(k * angle(i)) : (i < j ? 1 : -1) * Math.sin(k * angle(i)));
        const slider = qkv.el("input", {type: "range", id: "offset", min: 0, max: 40, value: 1});
        const said = qkv.el("output", {for: "offset"});
        const update = () => {
            const k = Number(slider.value), m = turn(k), products = [];
            let off = 0;
            for (let p = 0; p + k < count; p++) {
                const from = row(p), to = row(p + k), moved = product(m, from.map((v) => [v]));
                off = Math.max(off, ...moved.map(([v], c) => Math.abs(v - to[c])));
                products.push(from.reduce((sum, v, c) => sum + v * to[c], 0));
            }
            shift.caption.textContent = `M_${k} for d = 4: PE[p + ${k}] = M_${k} PE[p] for every p`;
            [...shift.tBodies[0].rows].forEach((r, i) => [...r.querySelectorAll("td")].forEach(
                (cell, j) => { cell.textContent = entry(m[i][j], 5); }));
            said.textContent = `k = ${k}: over ${count - k} positions M_${k} PE[p] is at most ` +
                `${off.toExponential(0)} from PE[p + ${k}], and PE[p] \u00b7 PE[p + ${k}] is ` +
                `${Math.min(...products).toFixed(6)} to ${Math.max(...products).toFixed(6)}.`;
        };
        slider.addEventListener("input", update);
        shift.closest(".scroll").before(qkv.el("p", {}, qkv.el("label", {}, "Offset k ", slider),
            " ", said));
        update();
    }

    const controls = document.getElementById("controls");
    const divisors = () => [1, 2, 3, 4, 5, 6, 7, 8].filter((h) => state.width % h === 0);
    controls.append(
        choice("heads", "Heads", divisors, () => state.heads, (v) => { state.heads = v; }),
        choice("width", "Width", () => [...new Set([2, 4, 6, 8, 12, 16, state.width])]
            .sort((a, b) => a - b), () => state.width, (v) => { state.width = v; }),
        box("scaled", "Scale by 1/\u221ad_k", () => state.scaled, (v) => { state.scaled = v; }),
        box("causal", "Causal mask", triangle, (v) => {
            state.hidden = make(state.rows, state.rows, (i, j) => v && j > i);
        }),
        box("biases", "Biases", () => state.biases, (v) => { state.biases = v; }),
        box("with-positions", "Positions", () => state.positions,
            (v) => { state.positions = v; }),
        ownNumbers());
    controls.hidden = false;
    shiftPanel();
    numbers();
    render();
    window.lesson = {state, compute, render, given};
})();
