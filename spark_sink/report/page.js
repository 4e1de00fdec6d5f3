// Draws the plots of the page and keeps them in the colours that the reader prefers; on paper they are light.
"use strict";
(function () {
  const LIGHT = { ink: "#1b2330", grid: "#e4e8ee", paper: "#ffffff" };
  const DARK = { ink: "#e8ecf2", grid: "#313a47", paper: "#1b212a" };
  const PAPER_PX = 690; // a page of A4 or Letter within its margins
  const NARROW_PX = 560;
  const LEGEND_PX = 14; // a name in a legend, of which a phone has one or two in a line
  const CONFIG = {
    responsive: true,
    displayModeBar: false, // it lies over the first row; dragging and double-clicking do the same
  };
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const elements = Object.keys(plots).map((name) => document.getElementById("plot-" + name));

  function colours(layout, isDark) {
    const theme = isDark ? DARK : LIGHT;
    const changes = {
      "font.color": theme.ink,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      "hoverlabel.bgcolor": theme.paper,
      "hoverlabel.font.color": theme.ink,
    };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        changes[key + ".gridcolor"] = theme.grid;
        changes[key + ".linecolor"] = theme.grid;
        changes[key + ".zerolinecolor"] = theme.grid;
      }
    }
    return changes;
  }

  // On a phone: short names, few times, and no notes in a margin, which the table has, too.
  function narrow(element, { data, layout }) {
    if (layout.meta) layout.yaxis.ticktext = layout.meta.narrow;
    if (layout.xaxis.type === "log") {
      layout.xaxis.ticktext = layout.xaxis.ticktext.map((text, place) => (/^1/.test(text) ? text : ""));
    }
    layout.xaxis.nticks = 4;
    layout.margin.r = Math.min(layout.margin.r, 80);
    layout.height += LEGEND_PX * data.filter((trace) => trace.name && trace.showlegend !== false).length;
    element.style.height = layout.height + "px";
    for (const { colorbar } of data) {
      if (colorbar) Object.assign(colorbar, { orientation: "h", y: 1.02, yanchor: "bottom", thickness: 10, title: {} });
    }
    for (const trace of data) if (trace.textposition instanceof Array) trace.textposition = "bottom center";
    delete layout.annotations;
  }

  function draw(element) {
    const plot = plots[element.id.slice("plot-".length)];
    if (element.clientWidth < NARROW_PX) narrow(element, plot);
    for (const [path, value] of Object.entries(colours(plot.layout, prefersDark.matches))) {
      const names = path.split(".");
      const last = names.pop();
      const inner = names.reduce((outer, name) => (outer[name] = outer[name] || {}), plot.layout);
      inner[last] = value;
    }
    return Plotly.newPlot(element, plot.data, plot.layout, CONFIG).then(() => { element.dataset.drawn = "yes"; });
  }

  function repaint(isDark, size) {
    for (const element of elements) {
      const plot = plots[element.id.slice("plot-".length)];
      Plotly.relayout(element, Object.assign(colours(plot.layout, isDark), size));
    }
  }

  Promise.all(elements.map(draw)).then(() => {
    document.body.dataset.drawn = "yes";
    prefersDark.addEventListener("change", () => repaint(prefersDark.matches, {}));
    window.addEventListener("beforeprint", () => repaint(false, { autosize: false, width: PAPER_PX }));
    window.addEventListener("afterprint", () => repaint(prefersDark.matches, { autosize: true, width: null }));
  });
})();
