/* look_series.js - a series in the explorer of look.js: its curves, a band for each position of an
 * axis, shaded by weight; qkv.seriesPlot stands beside look.js's lists of tokens and grids. */
"use strict";
qkv.seriesPlot = (series) => (axis, name, choose) => {
    const {el, svg} = qkv, made = series.made, rows = series.read + made;
    const width = 720, height = 190, left = 56, top = 8, right = 8, bottom = 22;
    const wide = width - left - right, high = height - top - bottom;
    const x = (row) => left + wide * row / rows;
    const columns = series.values[0].length, names = series.columns;
    const title = (c) => names ? names[c] : `column ${c + 1}`;
    const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0,
        class: "series", role: "application", "aria-label": `${name}: arrow keys choose a position`});
    const bands = axis.labels.map((label, i) => {
        const from = axis.from + i * axis.span, to = Math.min(from + axis.span, rows);
        const rect = svg("rect", {x: x(from), y: top, width: x(to) - x(from), height: high,
            class: "band", "data-at": i, fill: "var(--s1)", "fill-opacity": 0});
        const tip = svg("title", {}, label);
        rect.append(tip);
        return {rect, tip};
    });
    const curves = svg("g", {});
    const frame = svg("rect", {class: "chosen", y: top, height: high,
        visibility: "hidden"});
    drawing.append(svg("rect", {x: left, y: top, width: wide, height: high, fill: "none",
        stroke: "var(--grid)"}), ...bands.map((b) => b.rect), curves, frame);

    const text = (at, y, anchor, t) => svg("text", {x: at, y, "text-anchor": anchor,
        "font-size": 11, class: "qt", fill: "var(--faint)"}, t);
    const missing = (v) => v === null || v === undefined;
    function line(value, from, to, attributes) {
        let path = "", gap = true;
        for (let i = from; i < to; i++) {
            const v = value(i);
            if (!missing(v)) {
                path += `${gap ? "M" : "L"}${x(i + 0.5).toFixed(1)},${y(v).toFixed(1)}`;
                if (gap && (i + 1 === to || missing(value(i + 1)))) // between missing ones
                    curves.append(svg("circle", {cx: x(i + 0.5), cy: y(v), r: 2.5,
                        fill: attributes.stroke, "pointer-events": "none"}));
            }
            gap = missing(v);
        }
        curves.append(svg("path", {d: path, fill: "none", "stroke-width": 1.5,
            "stroke-linecap": "round", "pointer-events": "none", ...attributes}));
    }
    let low = 0, range = 1;
    const y = (v) => top + high * (1 - (v - low) / range);
    function draw(c) {
        const all = series.values.map((r) => r[c]).concat(series.answers.map((r) => r[c]))
            .filter((v) => !missing(v));
        low = all.reduce((a, b) => Math.min(a, b), Infinity);
        const most = all.reduce((a, b) => Math.max(a, b), -Infinity);
        range = most > low ? most - low : 1;
        curves.replaceChildren(text(left - 5, top + 10, "end", most.toPrecision(4)),
            text(left - 5, top + high, "end", low.toPrecision(4)),
            text(left, height - 6, "start", `row ${series.first + 1}`),
            text(left + wide, height - 6, "end", `row ${series.first + rows}`));
        const value = (i) => series.values[i][c], answer = (i) => series.answers[i][c];
        if (made)
            curves.append(svg("line", {x1: x(series.read), x2: x(series.read), y1: top,
                y2: top + high, stroke: "var(--faint)", "pointer-events": "none"}));
        line(value, 0, series.read, {stroke: "var(--text)"});
        line(value, series.read, rows, {stroke: "var(--text)", "stroke-dasharray": "4 3"});
        line(answer, 0, rows, {stroke: "var(--s0)"});
    }
    draw(0);

    let chosen = 0;
    const pick = (e) => {
        if (e.target.dataset.at !== undefined) choose(Number(e.target.dataset.at), e.type);
    };
    drawing.addEventListener("click", pick);
    drawing.addEventListener("pointerover", pick);
    drawing.addEventListener("keydown", (e) => {
        const step = {ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9}[e.key];
        if (step === undefined) return;
        e.preventDefault();
        choose(Math.max(0, Math.min(bands.length - 1, chosen + step)), "click");
    });
    const scale = el("figcaption", {});
    const figure = el("figure", {id: `${name.replace(/\W+/g, "-")}-curve`}, drawing, scale);
    qkv.saves(figure);
    const truth = series.values.slice(series.read).some((r) => r.some((v) => v !== null));
    const answered = series.answers.some((r) => r.some((v) => v !== null));
    const box = el("div", {}, figure);
    if (columns > 1) {
        const list = el("select", {"aria-label": "column"},
            ...Array.from({length: columns}, (_, c) => el("option", {value: c}, title(c))));
        list.addEventListener("change", () => draw(Number(list.value)));
        box.prepend(list);
    }
    return {box, buttons: [], paint(w, most) {
        bands.forEach(({rect, tip}, i) => {
            rect.setAttribute("fill-opacity", w && most > 0 ? (0.8 * w[i] / most).toFixed(3) : 0);
            tip.textContent = w ? `${axis.labels[i]}: ${w[i].toFixed(3)}` : axis.labels[i];
        });
        scale.textContent = (w ? `Full colour: ${most.toFixed(3)}; no colour: 0. ` : "") +
            "Black: the series" + (truth ? ", dashed the truth" : "") +
            (!answered ? "." : made ? "; blue: the model." : "; blue: what is filled in.");
    }, choose(at) {
        if (at >= 0) chosen = at;
        const {rect} = bands[Math.max(0, at)];
        frame.setAttribute("visibility", at < 0 ? "hidden" : "visible");
        frame.setAttribute("x", rect.getAttribute("x"));
        frame.setAttribute("width", rect.getAttribute("width"));
    }};
};
