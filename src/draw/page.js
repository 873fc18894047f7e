/* page.js - every page's script: the theme, saving of figures, the page's data.
 *
 *     qkv.json(id)          the value of a JSON block
 *     qkv.bytes(id)         a promise of the bytes of a block, as an Uint8Array
 *     qkv.visible(text)     text with escapes for what cannot be seen, as qkv_str_visible
 *     qkv.el(tag, {attributes}, ...children)   a new element; text children are text
 *     qkv.svg(tag, {attributes}, ...children)  the same in SVG
 *     qkv.saves(figure)     adds the buttons that save the figure's drawing               */
"use strict";
const qkv = (() => {
    const space = "http://www.w3.org/2000/svg";

    function fill(e, attributes, children) {
        for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
        e.append(...children);
        return e;
    }
    const el = (tag, attributes, ...children) =>
        fill(document.createElement(tag), attributes, children);
    const svg = (tag, attributes, ...children) =>
        fill(document.createElementNS(space, tag), attributes, children);

    const unseen = new RegExp("[\\0-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-" +
        "\\u202e\\u2060-\\u206f\\ufdd0-\\ufdef\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff]", "g");
    const named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"};
    const visible = (text) => String(text).replace(unseen, (c) => {
        const hex = c.charCodeAt(0).toString(16);
        return named[c] || (c < "\x80" ? "\\x" + hex.padStart(2, "0")
            : "\\u" + hex.padStart(4, "0"));
    });

    // ---- data ----
    const json = (id) => JSON.parse(document.getElementById(id).textContent);
    async function bytes(id) {
        const block = document.getElementById(id), text = atob(block.textContent);
        const raw = Uint8Array.from(text, (c) => c.charCodeAt(0));
        if (block.dataset.encoding !== "deflate") return raw;
        const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
        return new Uint8Array(await new Response(stream).arrayBuffer());
    }

    // ---- saving ----
    // What styles may set, and what is meant where it is not set.
    const painted = {"fill": "", "stroke": "none", "fill-opacity": "1", "stroke-opacity": "1",
        "stroke-width": "1px", "display": "inline"};
    const written = {"font-family": "", "font-weight": "400", "white-space": "normal"};

    /* The drawing as a file of its own: what the page's styles gave it becomes attributes. */
    function alone(drawing) {
        const copy = drawing.cloneNode(true);
        const from = [drawing, ...drawing.querySelectorAll("*")];
        const to = [copy, ...copy.querySelectorAll("*")];
        from.forEach((e, i) => {
            if (e.hasAttribute("class") || e.hasAttribute("style")) {
                const style = getComputedStyle(e);
                const text = e.tagName === "text";
                for (const [name, usual] of Object.entries({...painted, ...(text && written)})) {
                    const value = style.getPropertyValue(name);
                    if (value && value !== usual && value !== "block")
                        to[i].setAttribute(name, value);
                }
                to[i].removeAttribute("class");
                to[i].removeAttribute("style");
            }
        });
        copy.setAttribute("xmlns", space);
        const background = getComputedStyle(document.documentElement).backgroundColor;
        copy.prepend(svg("rect", {width: "100%", height: "100%", fill: background}));
        if (drawing.hasAttribute("aria-label"))
            copy.prepend(svg("title", {}, drawing.getAttribute("aria-label")));
        return new XMLSerializer().serializeToString(copy);
    }

    function hand(blob, name) {
        const url = URL.createObjectURL(blob);
        el("a", {href: url, download: name}).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    const saveSvg = (drawing, name) =>
        hand(new Blob([alone(drawing)], {type: "image/svg+xml"}), name + ".svg");

    async function png(drawing) {
        const box = drawing.viewBox.baseVal, image = new Image();
        image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(alone(drawing));
        await image.decode();
        const canvas = el("canvas", {width: 2 * box.width, height: 2 * box.height});
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        return new Promise((done) => canvas.toBlob(done, "image/png"));
    }
    const savePng = async (drawing, name) => hand(await png(drawing), name + ".png");

    function saves(figure) {
        const drawing = figure.querySelector("svg"), name = figure.id || "figure";
        if (!drawing) return;
        const label = drawing.getAttribute("aria-label") || name;
        const button = (text, action) => {
            const b = el("button", {type: "button", "aria-label": `Save ${label} as ${text}`}, text);
            b.addEventListener("click", () => action(figure.querySelector("svg"), name));
            return b;
        };
        figure.append(el("div", {class: "save"}, button("SVG", saveSvg), button("PNG", savePng)));
    }

    // ---- the theme ----
    function theme() {
        const button = document.getElementById("theme"), root = document.documentElement;
        const dark = matchMedia("(prefers-color-scheme: dark)");
        const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
        const label = () => { button.textContent = now() === "dark" ? "Light" : "Dark"; };
        button.hidden = false;
        button.addEventListener("click", () => {
            root.dataset.theme = now() === "dark" ? "light" : "dark";
            label();
        });
        dark.addEventListener("change", label);
        label();
    }

    theme();
    document.querySelectorAll("figure").forEach(saves);
    return {json, bytes, visible, el, svg, alone, png, saves};
})();
