"use strict";
// Draws every chart of the page with plotly, in the colours of the theme; again when the theme or the width changes.
const DARK = { "#0072b2": "#56b4e9", "#d55e00": "#ff8c42", "#009e73": "#2bc79a", "#cc79a7": "#e79fc4",
  "#b07d00": "#f0c54a", "#3a8fc4": "#8fd0ff", "#333333": "#e0e0e0", "#8a97a6": "#75828f", "#1a1a1a": "#e8eaed",
  "#ffffff": "#14171c", "#d0d4da": "#3a414b" };
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 700px)");
const thumb = document.getElementById("thumb");

const themed = (value, colours) => {
  if (typeof value === "string") return colours[value] ?? value;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return value;
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, each]) =>
      [name, name === "bdata" || name === "text" ? each : themed(each, colours)]));
  return value;
};

const layoutOf = (figure, page, colours) => {
  const of = (colour) => colours[colour] ?? colour;
  const layout = { ...themed(figure.layout, colours), paper_bgcolor: of("#ffffff"), plot_bgcolor: of("#ffffff"),
    font: { color: of("#1a1a1a"), size: 12 }, margin: { l: 56, r: 12, t: 12, b: 48 }, hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, dragmode: page.square && !narrow.matches ? "pan" : false };
  for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name))
    Object.assign(layout[name], { gridcolor: of("#d0d4da"), zerolinecolor: of("#d0d4da"), automargin: true });
  if (page.panels > 1) layout.grid = narrow.matches ? { rows: page.panels, columns: 1, pattern: "independent" }
    : { rows: 1, columns: page.panels, pattern: "independent" };
  return layout;
};

const showThumb = (box, page, event) => {
  const point = event.points[0], number = point.customdata ? point.customdata[2] : -1;
  if (!page.sheet || !(number >= 0)) return;
  const across = 64, tile = 96;
  Object.assign(thumb.style, { backgroundImage: `url(data:image/png;base64,${page.sheet})`, backgroundSize: `${across * tile}px auto`,
    backgroundPosition: `-${(number % across) * tile}px -${Math.floor(number / across) * tile}px` });
  const at = event.event && event.event.pageX !== undefined ? [event.event.pageX, event.event.pageY]
    : [box.getBoundingClientRect().left + scrollX + 60, box.getBoundingClientRect().top + scrollY + 60];
  thumb.style.left = `${Math.min(at[0] + 16, scrollX + innerWidth - 112)}px`;
  thumb.style.top = `${at[1] + 24}px`;
  thumb.hidden = false;
};

// Left and right go from point to point of the last series that can be hovered.
const walkByKeys = (box) => {
  let at = -1;
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.target !== box) return;
    const traces = box._fullData, last = traces.findLastIndex((one) => one.visible === true && one.hoverinfo !== "skip");
    if (last < 0 || !["scattergl", "scatter", "bar"].includes(traces[last].type)) return;
    const many = traces[last].x.length;
    at = (at + step + many) % many;
    const one = traces[last], where = one.type === "scattergl" ? { xval: one.x[at], yval: one.y[at] }
      : [{ curveNumber: last, pointNumber: at }];  // WebGL finds points by their place alone
    Plotly.Fx.hover(box, where, one.xaxis + one.yaxis);
    event.preventDefault();
  });
};

const charts = [...document.querySelectorAll(".chart")].map((box) => {
  const section = box.parentElement, select = section.querySelector("select");
  const texts = [...section.querySelectorAll("script")].map((script) => script.textContent);
  if (JSON.parse(texts[0]).page.square) section.classList.add("whole");
  const draw = async () => {
    const { figure, page } = JSON.parse(texts[select ? Number(select.value) : 0]);
    const colours = dark.matches ? DARK : {};
    box.style.height = page.square && page.panels > 1 && narrow.matches ? `${360 * page.panels}px` : "";
    const data = figure.data.map((trace) => themed(trace, colours));
    await Plotly.react(box, data, layoutOf(figure, page, colours), { responsive: true, displaylogo: false,
      displayModeBar: page.square ? "hover" : false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] });
    box.removeAllListeners("plotly_hover"); box.removeAllListeners("plotly_unhover");
    box.on("plotly_hover", (event) => showThumb(box, page, event));
    box.on("plotly_unhover", () => { thumb.hidden = true; });
  };
  if (select) select.addEventListener("change", draw);
  walkByKeys(box);
  return draw;
});
const drawAll = async () => { for (const draw of charts) await draw(); document.body.dataset.drawn = charts.length; };
dark.addEventListener("change", drawAll);
narrow.addEventListener("change", drawAll);
drawAll();
