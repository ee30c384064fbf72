"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const byId = (id) => document.getElementById(id);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const MODES = ["zoom", "pan", "lasso", "select"];
  const MISSING = 65535, STEPS = 65534, LONG = 60;

  // ---- numbers and texts -------------------------------------------------------------------------------------------

  function bytes(base64) {
    const text = atob(base64), found = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
    return found;
  }
  function whole(base64, width) { // little-endian whole numbers of `width` bytes, on any machine
    const raw = bytes(base64), found = new Array(raw.length / width);
    for (let i = 0; i < found.length; i++) {
      let value = 0;
      for (let b = width - 1; b >= 0; b--) value = value * 256 + raw[i * width + b];
      found[i] = value;
    }
    return found;
  }
  function unpacked(pack) {
    const steps = whole(pack.steps, 2);
    return Float64Array.from(steps, (s) => s === MISSING ? NaN : pack.low * (1 - s / STEPS) + pack.high * (s / STEPS));
  }
  function writer(low, high) { // numbers as fine as a thousandth of their range asks for
    const range = Math.abs(high - low) || Math.abs(high) || 1, power = Math.floor(Math.log10(range));
    if (power < -6 || power > 8) return (v) => Number.isFinite(v) ? v.toExponential(3).replace("-", "−") : "none";
    const decimals = Math.min(9, Math.max(0, 3 - power));
    return (v) => Number.isFinite(v) ? v.toFixed(decimals).replace("-", "−") : "none";
  }
  const grouped = (n) => n.toLocaleString("en");
  function safe(text) { // for plotly, which reads a little HTML
    const cut = text.length > LONG ? text.slice(0, LONG - 1) + "…" : text;
    return cut.replace(/[\u0000-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�")
      .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  // ---- looks -------------------------------------------------------------------------------------------------------

  const isDark = () => dark.matches && !printing.matches;
  const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => isDark() ? report.darkPalette : report.palette;
  function layoutOf(more) {
    const axis = { gridcolor: shade("--line"), zerolinecolor: shade("--line"), linecolor: shade("--line"), automargin: true };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
      font: { family: "system-ui, sans-serif", size: 13, color: shade("--ink") },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: shade("--soft"), activecolor: shade("--accent") },
      margin: { l: 60, r: 15, t: 15, b: 50 }, ...more,
    };
    for (const name of ["xaxis", "yaxis"]) layout[name] = { ...axis, ...(more[name] || {}) };
    return layout;
  }
  const config = {
    responsive: true, displaylogo: false, displayModeBar: "hover", scrollZoom: false,
    modeBarButtons: [["toImage"]], // named one by one: nothing that would send data anywhere
  };
  const drawn = []; // what to draw again when the colours of the page change

  function webgl() {
    try {
      const canvas = document.createElement("canvas");
      return Boolean(canvas.getContext("webgl") || canvas.getContext("experimental-webgl"));
    } catch (error) {
      return false;
    }
  }
  const gl = webgl(); // only 3-D needs it: flat dots are drawings, which need no rights and print well

  function shuffled(n) { // the same on every machine: no class covers another by being drawn last
    const order = Array.from({ length: n }, (_, i) => i);
    let state = 12345;
    for (let i = n - 1; i > 0; i--) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const j = state % (i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }

  // ---- the map -----------------------------------------------------------------------------------------------------

  function startMap(data) {
    const place = byId("embedding-plot"), note = byId("embedding-note"), legend = byId("legend");
    const components = data.components.map((c) => ({ name: c.name, scores: unpacked(c.scores), write: writer(c.scores.low, c.scores.high) }));
    const m = data.ids.length, order = shuffled(m);
    const rows = data.rows ? whole(data.rows, 4) : null;
    const colours = data.colours.map(decoded), labels = data.colours.length && data.colours[0].name === "label" ? colours[0] : null;
    const size = Math.max(3, Math.min(9, 9 - 1.4 * Math.log10(Math.max(m, 10) / 50)));
    const opacity = m > 8000 ? 0.5 : m > 1500 ? 0.65 : 0.8;
    const heights = components.length === 1 ? order.map((_, i) => ((order[i] * 0.6180339887) % 1) - 0.5) : null;
    const state = { x: 0, y: 1, z: 2, colour: colours.length ? 0 : -1, deep: false, mode: "zoom", hidden: new Set(), dots: order, selected: [] };

    function decoded(colour) {
      return colour.kind === "classes"
        ? { ...colour, of: whole(colour.codes, 2), coloured: Math.min(colour.count, palette().length) }
        : { ...colour, of: unpacked(colour.values), write: writer(colour.values.low, colour.values.high) };
    }
    // classes beyond the palette share its last colour
    const shared = (colour) => colour.count > palette().length;
    const group = (colour, i) => Math.min(colour.of[i], palette().length - 1);

    function told(i) {
      const lines = [`<b>row ${safe(data.ids[i])}</b>`];
      if (rows && String(rows[i]) !== data.ids[i]) lines.push(`number ${rows[i]}`);
      if (labels) lines.push("label " + valueOf(labels, i));
      const colour = colours[state.colour];
      if (colour && colour !== labels) lines.push(safe(colour.name) + ": " + valueOf(colour, i));
      const axes = components.length === 1 ? [state.x] : state.deep ? [state.x, state.y, state.z] : [state.x, state.y];
      for (const j of new Set(axes)) lines.push(`component ${j + 1}: ${components[j].write(components[j].scores[i])}`);
      return lines.join("<br>");
    }
    const valueOf = (colour, i) => colour.kind === "classes" ? safe(colour.names[Math.min(colour.of[i], colour.names.length - 1)]) : colour.of[i] >= colour.most ? `${colour.most} or more` : colour.write(colour.of[i]);

    function marker() {
      const colour = colours[state.colour], base = { size: state.deep ? Math.max(2, size * 0.6) : size, opacity, line: { width: 0 } };
      if (!colour) return { ...base, color: shade("--bar") };
      if (colour.kind === "classes") return { ...base, color: state.dots.map((i) => palette()[group(colour, i)]) };
      const low = colour.low === undefined ? colour.values.low : colour.low, high = colour.high === undefined ? colour.values.high : colour.high;
      return {
        ...base, color: state.dots.map((i) => colour.of[i]), colorscale: "Viridis", cmin: low, cmax: high > low ? high : low + 1,
        colorbar: { title: { text: safe(colour.name), side: "right" }, thickness: 12, len: 0.9, outlinewidth: 0 },
      };
    }
    function trace() {
      const colour = colours[state.colour];
      state.dots = colour && colour.kind === "classes" ? order.filter((i) => !state.hidden.has(group(colour, i))) : order;
      const of = (j) => state.dots.map((i) => components[j].scores[i]);
      const made = { mode: "markers", x: of(state.x), marker: marker(), text: state.dots.map(told), hoverinfo: "text" };
      if (state.deep) return { ...made, type: "scatter3d", y: of(state.y), z: of(state.z) };
      const up = heights ? state.dots.map((i) => heights[i]) : of(state.y);
      return { ...made, type: "scatter", y: up, selected: { marker: { opacity: 1 } }, unselected: { marker: { opacity: 0.12 } } };
    }
    function layout() {
      const axis = (j) => ({ title: { text: safe(components[j].name) } });
      if (state.deep) {
        const lines = { gridcolor: shade("--line"), color: shade("--ink"), backgroundcolor: "rgba(0,0,0,0)", showbackground: false };
        return layoutOf({ margin: { l: 0, r: 0, t: 0, b: 0 }, scene: { xaxis: { ...axis(state.x), ...lines }, yaxis: { ...axis(state.y), ...lines }, zaxis: { ...axis(state.z), ...lines } } });
      }
      const yaxis = heights ? { visible: false, fixedrange: true } : axis(state.y);
      return layoutOf({ dragmode: state.mode, xaxis: axis(state.x), yaxis });
    }
    async function draw() {
      legends();
      await Plotly.react(place, [trace()], layout(), config);
      place.dataset.drawn = String(Number(place.dataset.drawn || 0) + 1);
      place.dataset.kind = state.deep ? "scatter3d" : "scatter";
      if (!place.dataset.listening) {
        place.dataset.listening = "yes";
        place.on("plotly_selected", selected);
        place.on("plotly_deselect", () => select([]));
      }
    }

    function legends() {
      legend.replaceChildren();
      const colour = colours[state.colour];
      if (!colour || colour.kind !== "classes") return;
      const many = shared(colour), last = palette().length - 1;
      for (let c = 0; c < Math.min(colour.count, palette().length); c++) {
        const other = many && c === last, button = document.createElement("button"), dot = document.createElement("span");
        dot.className = "dot";
        dot.style.background = palette()[c];
        const rest = m - colour.sizes.slice(0, last).reduce((a, b) => a + b, 0);
        const text = other ? `${colour.count - last} others (${grouped(rest)})` : `${colour.names[c]} (${grouped(colour.sizes[c])})`;
        button.type = "button";
        button.append(dot, document.createTextNode(text));
        button.setAttribute("aria-pressed", String(!state.hidden.has(c)));
        button.addEventListener("click", () => {
          if (state.hidden.has(c)) state.hidden.delete(c); else state.hidden.add(c);
          select([]);
          draw();
        });
        legend.append(button);
      }
    }

    function selected(event) {
      if (!event || !event.points) return;
      select([...new Set(event.points.map((p) => state.dots[p.pointNumber ?? p.pointIndex]))].sort((a, b) => a - b));
    }
    function select(chosen) {
      state.selected = chosen;
      const n = chosen.length, box = byId("selected-ids");
      byId("selected-count").textContent = n ? `${grouped(n)} ${n === 1 ? "row" : "rows"}:` : "None yet.";
      box.hidden = n === 0;
      box.value = chosen.map((i) => data.ids[i]).join("\n");
      byId("selected-copy").disabled = byId("selected-csv").disabled = n === 0;
      byId("selected-told").textContent = "";
    }
    async function copy() {
      const box = byId("selected-ids");
      let done = false;
      try {
        await navigator.clipboard.writeText(box.value);
        done = true;
      } catch (error) { // not allowed here: the older way
        box.focus();
        box.select();
        done = document.execCommand("copy");
      }
      byId("selected-told").textContent = done ? "Copied." : "Copying is not allowed here: mark the ids and copy them by hand.";
    }
    function download() {
      const quoted = (text) => /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
      const lines = ["row,id", ...state.selected.map((i) => `${rows ? rows[i] : i},${quoted(data.ids[i])}`)];
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], { type: "text/csv;charset=utf-8" }));
      link.download = "selected-rows.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }

    function press(id, on) {
      const button = byId(id);
      if (button) button.setAttribute("aria-pressed", String(on));
    }
    function setMode(mode) {
      state.mode = mode;
      for (const name of MODES) press(`mode-${name}`, name === mode && !state.deep);
      if (!state.deep && place.data) Plotly.relayout(place, { dragmode: mode });
    }
    function setDeep(on) {
      state.deep = on;
      select([]);
      press("mode-3d", on);
      byId("axis-z-label").hidden = !on;
      for (const name of MODES) byId(`mode-${name}`).disabled = on;
      Plotly.purge(place);
      delete place.dataset.listening;
      draw().then(() => setMode(state.mode));
    }
    function withoutGl() {
      const button = byId("mode-3d");
      if (!button) return;
      button.disabled = true;
      note.textContent = "This browser has no WebGL, so there is no 3-D view here.";
      note.hidden = false;
    }

    for (const axis of ["x", "y", "z"]) {
      const field = byId(`axis-${axis}`);
      if (!field) continue;
      state[axis] = Number(field.value);
      field.addEventListener("change", () => { state[axis] = Number(field.value); select([]); draw(); });
    }
    const colourBy = byId("colour-by");
    state.colour = Number(colourBy.value) - 1;
    colourBy.addEventListener("change", () => { state.colour = Number(colourBy.value) - 1; state.hidden.clear(); draw(); });
    for (const mode of MODES) byId(`mode-${mode}`).addEventListener("click", () => setMode(mode));
    byId("mode-reset").addEventListener("click", () => {
      select([]);
      state.hidden.clear();
      Plotly.purge(place);
      delete place.dataset.listening;
      draw();
    });
    if (byId("mode-3d")) byId("mode-3d").addEventListener("click", () => setDeep(!state.deep));
    byId("selected-copy").addEventListener("click", copy);
    byId("selected-csv").addEventListener("click", download);
    if (!gl) withoutGl();
    drawn.push(draw);
    draw();
  }

  // ---- the other pictures ------------------------------------------------------------------------------------------

  function startSpectrum(data) {
    const place = byId("spectrum-plot"), of = data.share.map((_, j) => j + 1), write = (v) => v === null ? "none" : `${v.toPrecision(4)} %`;
    drawn.push(() => Plotly.react(place, [
      {
        type: "bar", x: of, y: data.share, marker: { color: shade("--bar") }, hoverinfo: "text",
        text: of.map((j, i) => `component ${j}: ${write(data.share[i])}`), textposition: "none",
        error_y: { type: "data", symmetric: false, array: data.above, arrayminus: data.below, color: shade("--ink"), thickness: 1.5, width: 4 },
      },
      {
        type: "scatter", mode: of.length > 1 ? "lines+markers" : "markers", x: of, y: data.sum, hoverinfo: "text", marker: { size: 6 },
        line: { color: palette()[1], width: 2 }, text: of.map((j, i) => `the first ${j}: ${write(data.sum[i])}`),
      },
    ], layoutOf({
      dragmode: "zoom", bargap: 0.35, xaxis: { title: { text: "component" }, dtick: of.length <= 20 ? 1 : undefined, showgrid: false, range: [0.4, of.length + 0.6] },
      yaxis: { title: { text: `% of the ${data.word}` }, rangemode: "tozero" },
    }), config));
    drawn[drawn.length - 1]();
  }

  function startChart(data, ids) {
    const place = byId("chart-plot"), of = whole(data.rows, 4), n = ids.length;
    const times = Array.from(unpacked(data.ratio), (r) => Math.pow(10, r));
    drawn.push(() => Plotly.react(place, [{
      type: "scatter", mode: "markers", x: of, y: times, hoverinfo: "text",
      text: times.map((t, i) => `<b>row ${safe(ids[of[i]])}</b><br>${t.toPrecision(3)} times the limit`),
      marker: { size: n > 5000 ? 3 : n > 500 ? 4 : 6, opacity: n > 5000 ? 0.5 : 0.8, color: times.map((t) => t > 1 ? palette()[1] : shade("--bar")) },
    }], layoutOf({
      dragmode: "zoom", xaxis: { title: { text: "row, in the order of the data" }, showgrid: false, zeroline: false, range: [-0.02 * n - 0.5, 1.02 * n - 0.5] },
      yaxis: { type: "log", title: { text: "times the limit" }, dtick: 1, exponentformat: "power", zeroline: false },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: shade("--ink"), width: 1, dash: "dash" } }],
      annotations: [{ xref: "paper", x: 1, y: 0, yref: "y", text: "limit", showarrow: false, xanchor: "right", yanchor: "bottom" }],
    }), config));
    drawn[drawn.length - 1]();
  }

  if (report.embedding) startMap(report.embedding);
  if (report.spectrum) startSpectrum(report.spectrum);
  if (report.chart) startChart(report.chart, report.embedding.ids);
  const again = () => drawn.forEach((draw) => draw());
  dark.addEventListener("change", again);
  printing.addEventListener("change", again);
})();
