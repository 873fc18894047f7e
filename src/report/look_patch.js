/* look_patch.js - reads out the grids of activation patching: a cell is chosen by mouse or arrow
 * keys; its layer, position and numbers are told. */
"use strict";
(() => {
    const data = qkv.json("patch"), {el, svg} = qkv;
    const whole = data.clean - data.corrupt;
    const share = (x) => whole ? `${(100 * (x - data.corrupt) / whole).toFixed(1)} %` : "none";

    function explore(g, grid, axis, panel) {
        const layers = grid.values.length, positions = grid.values[0].length;
        const maps = axis.rows > 0, places = axis.rows * axis.columns;
        // Cell of a map -> position, and back; class tokens come before all patches.
        const at = new Map(), cells = [];
        for (let i = axis.lead; i < positions && maps; i++) {
            cells[i] = axis.cells ? axis.cells[i - axis.lead] : i - axis.lead;
            at.set(cells[i], i);
        }
        const group = (layer) =>
            panel.querySelector(`[data-key="patch-${g}${maps ? "-" + layer : ""}"]`);
        const rect = (layer, position) => {
            const cell = maps ? cells[position] : layer * positions + position;
            return cell === undefined ? null : group(layer)?.querySelectorAll("rect")[cell];
        };
        const name = (i) => !grid.labels ? `head ${i}`
            : maps ? i < axis.lead ? qkv.visible(grid.labels[i]) : `patch ${grid.labels[i]}`
            : `position ${i} "${qkv.visible(grid.labels[i])}"`;
        const told = el("p", {class: "told", "aria-live": "polite"});
        const s = {layer: 0, position: 0};
        let mark = null;

        function show() {
            const value = grid.values[s.layer][s.position], r = rect(s.layer, s.position);
            told.textContent = `Layer ${grid.layers[s.layer]}, ${name(s.position)}: ${value.toFixed(4)}, ` +
                `${share(value)} of the difference restored.`;
            if (mark) mark.remove();
            mark = null;
            if (!r) return;
            mark = svg("rect", {class: "chosen"});
            for (const a of ["x", "y", "width", "height"]) mark.setAttribute(a, r.getAttribute(a));
            r.parentNode.parentNode.append(mark);
        }

        function choose(layer, position) {
            s.layer = Math.max(0, Math.min(layers - 1, layer));
            s.position = Math.max(0, Math.min(positions - 1, position));
            show();
        }

        /* One patch up or down; beyond the map, the layer before or behind. */
        function vertical(step) {
            const next = maps ? at.get(cells[s.position] + step * axis.columns) : undefined;
            if (next !== undefined) choose(s.layer, next);
            else choose(s.layer + step, s.position);
        }

        const steps = {ArrowLeft: () => choose(s.layer, s.position - 1),
            ArrowRight: () => choose(s.layer, s.position + 1), ArrowUp: () => vertical(-1),
            ArrowDown: () => vertical(1), PageUp: () => choose(s.layer - 1, s.position),
            PageDown: () => choose(s.layer + 1, s.position), Home: () => choose(s.layer, 0),
            End: () => choose(s.layer, positions - 1)};

        function pick(e) {
            const r = e.target.closest("rect"), owner = r && r.closest("[data-key]");
            if (!owner || !owner.dataset.key.startsWith(`patch-${g}`)) return;
            const cell = [...owner.querySelectorAll("rect")].indexOf(r);
            if (!maps) choose(Math.floor(cell / positions), cell % positions);
            else if (at.has(cell)) choose(Number(owner.dataset.key.split("-")[2]), at.get(cell));
        }

        const drawing = panel.querySelector("svg");
        drawing.setAttribute("tabindex", "0");
        drawing.addEventListener("mouseover", pick);
        drawing.addEventListener("click", pick);
        drawing.addEventListener("keydown", (e) => {
            if (!steps[e.key]) return;
            e.preventDefault();
            steps[e.key]();
        });
        panel.append(told, el("p", {class: "hint"},
            "Arrow keys move" + (maps ? "; Page Up and Page Down change the layer." : ".")));
        let best = [0, 0];
        grid.values.forEach((row, layer) => row.forEach((v, i) => {
            if (Math.abs(v - data.corrupt) > Math.abs(grid.values[best[0]][best[1]] - data.corrupt))
                best = [layer, i];
        }));
        choose(...best);
        panel.look = {s, choose, places};
        panel.dataset.ready = "1";
    }

    data.grids.forEach((grid, g) =>
        explore(g, grid, data.axes[g], document.getElementById("patch" + g)));
})();
