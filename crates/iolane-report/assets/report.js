// Draws the charts of a page from the JSON in it: each when it scrolls near the window, all before the page is printed.
// Text from the JSON is inserted as text nodes, never as markup.
"use strict";
(() => {
  const root = document.documentElement;
  const { charts, looks, markers } = JSON.parse(document.getElementById("charts").textContent);
  const drawn = new Map(); // by chart id: {chart, instance, hidden}
  root.dataset.script = "";

  // Numbers as the tables write them.
  const digits = (value) => {
    const size = Math.abs(value);
    if (String(value).length <= 4) return String(value);
    if (size >= 99.95) return value.toFixed(0);
    if (size >= 9.995) return value.toFixed(1);
    if (size >= 0.0995) return value.toFixed(2);
    return size >= 1e-6 ? value.toFixed(1 - Math.floor(Math.log10(size))) : "0";
  };
  const scaled = (value, steps) => {
    const [size, unit] = steps.find(([size]) => Math.abs(value) >= size * 0.9995) ?? steps.at(-1);
    return `${digits(value / size)} ${unit}`.trim();
  };
  const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const units = {
    number: digits,
    count: (value) => scaled(value, COUNTS),
    nanoseconds: (value) => scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]),
    seconds: (value) => `${digits(value)} s`,
    bytes: (value) => scaled(value, [[2 ** 30, "g"], [2 ** 20, "m"], [2 ** 10, "k"], [1, ""]]).replace(" ", ""),
    bytes_per_second: (value) => scaled(value, COUNTS.map(([size, prefix]) => [size, `${prefix}B/s`])),
    share: (value) => `${digits(Math.round(value * 1e6) / 1e4)} %`,
    watts: (value) => `${digits(value)} W`,
  };
  const shown = (axis, value) => units[axis.unit](value);
  const withInterval = (axis, [, value, low, high]) =>
    low != null && low < high ? [shown(axis, value), `${shown(axis, low)} to ${shown(axis, high)}`] : [shown(axis, value), ""];

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const colorOf = (look) => (isDark() ? look.dark : look.light);
  const inks = () => {
    const [page, note] = [getComputedStyle(document.body), getComputedStyle(document.querySelector("footer"))];
    const rule = getComputedStyle(document.querySelector("section")).borderTopColor;
    return { paper: page.backgroundColor, ink: page.color, soft: note.color, rule, font: page.fontFamily };
  };

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  };
  // A sample of a path's line with its marker.
  const swatch = (look, isHollow) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const part = (name, attributes) => {
      const made = document.createElementNS(svg.namespaceURI, name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      svg.append(made);
    };
    const color = colorOf(look);
    Object.entries({ width: 22, height: 10, viewBox: "-11 -5 22 10", "aria-hidden": "true" }).forEach(([key, value]) => svg.setAttribute(key, value));
    if (!isHollow) part("path", { d: "M-11,0H11", stroke: color, "stroke-width": 2, "stroke-dasharray": look.dash.join(" ") || "none" });
    part("path", { d: markers[look.marker], fill: isHollow ? "none" : color, stroke: color, "stroke-width": isHollow ? 1.5 : 0 });
    return svg;
  };

  // Ticks at 1, 2 and 5 of each decade if there are few decades, at each decade if there are more.
  const decades = (low, high) => {
    const steps = high / low < 300 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++) {
      ticks.push(...steps.map((step) => step * 10 ** decade));
    }
    return ticks.filter((tick) => tick >= low && tick <= high);
  };
  const valueAxis = (axis, values, { soft, rule, font }) => {
    const isLog = axis.kind === "log";
    const usable = isLog ? values.filter((value) => value > 0) : values;
    const [low, high] = [Math.min(...usable), Math.max(...usable)];
    const isPoint = axis.ticks.length === 1 && low === high;
    const ends = isPoint && !isLog ? { min: low - 1, max: low + 1 } : isLog ? { min: low / 1.12, max: high * 1.12 } : axis.unit === "share" && high <= 1 ? { min: 0, max: 1 } : {};
    const ticks = axis.ticks.length ? axis.ticks.filter((tick) => !isLog || tick > 0) : isLog ? decades(ends.min, ends.max) : null;
    const marks = ticks?.length > 1 || isPoint ? { customValues: ticks } : {};
    return {
      type: isLog && usable.length ? "log" : "value",
      ...(usable.length ? ends : {}),
      axisLabel: { color: soft, fontFamily: font, fontSize: 11, hideOverlap: true, formatter: (value) => shown(axis, value), ...marks },
      axisTick: { show: axis.ticks.length > 1, lineStyle: { color: rule }, ...marks },
      axisLine: { show: true, lineStyle: { color: rule } },
      splitLine: { lineStyle: { color: rule, opacity: 0.6 } },
      minorTick: { show: false },
      nameTextStyle: { color: soft, fontFamily: font, fontSize: 11 },
      nameLocation: "middle",
      name: axis.label,
    };
  };

  // The whisker of an interval: vertical at a point; along a bar, followed by the bar's value.
  const line = (from, to, color) => ({
    type: "line", silent: true, shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: color, lineWidth: 1.2, opacity: 0.85 },
  });
  const whisker = (color) => (_, api) => {
    const [a, b] = [1, 2].map((end) => api.coord([api.value(0), api.value(end)]));
    const cap = ([x, y]) => line([x - 4, y], [x + 4, y], color);
    return { type: "group", children: [line(a, b, color), cap(a), cap(b)] };
  };
  const whiskerOfBar = (axis, { ink, font }) => (_, api) => {
    const [place, low, high, value] = [0, 1, 2, 3].map((at) => api.value(at));
    const [a, b] = [low, high].map((end) => api.coord([end, place]));
    const cap = ([x, y]) => line([x, y - 4], [x, y + 4], ink);
    const text = { type: "text", silent: true, x: Math.max(b[0], api.coord([value, place])[0]) + 7, y: b[1], style: { text: shown(axis, value), fill: ink, font: `11px ${font}`, verticalAlign: "middle" } };
    return { type: "group", children: low < high ? [line(a, b, ink), cap(a), cap(b), text] : [text] };
  };
  const hasInterval = ([, , low, high]) => low != null && low < high;

  const linesOf = (chart, hidden, { paper }) =>
    chart.lines.flatMap((line, at) => {
      if (hidden.has(at)) return [];
      const look = looks[line.look];
      const color = colorOf(look);
      const isDense = line.points.length > 24;
      return [
        {
          id: `line ${at}`, type: "line", data: line.points, color, symbol: `path://${markers[look.marker]}`, symbolSize: isDense ? 5 : 8,
          showSymbol: !isDense, lineStyle: { color, width: 1.8, type: look.dash.length ? look.dash : "solid" }, emphasis: { disabled: true }, z: 3,
        },
        { id: `interval ${at}`, type: "custom", silent: true, data: isDense ? [] : line.points.filter(hasInterval).map(([x, , low, high]) => [x, low, high]), renderItem: whisker(color), encode: { x: 0, y: [1, 2] }, z: 2 },
        {
          id: `published ${at}`, type: "scatter", data: line.published, symbol: `path://${markers[look.marker]}`, symbolSize: 11,
          itemStyle: { color: paper, borderColor: color, borderWidth: 1.8 }, emphasis: { disabled: true }, z: 4,
        },
      ];
    });
  const barsOf = (chart, hidden, colors) =>
    chart.lines.flatMap((line, at) => {
      if (hidden.has(at)) return [];
      const look = looks[line.look];
      const color = colorOf(look);
      return [
        {
          // On a logarithmic axis a bar has no zero to start at.
          id: `line ${at}`, ...(chart.y.kind === "log" ? { type: "scatter", symbol: `path://${markers[look.marker]}`, symbolSize: 10, z: 5 } : { type: "bar", barWidth: 13, barGap: "-100%" }),
          data: line.points.map(([place, value]) => [value, place]), color, emphasis: { disabled: true },
        },
        { id: `interval ${at}`, type: "custom", silent: true, data: line.points.map(([place, value, low, high]) => [place, low ?? value, high ?? value, value]), renderItem: whiskerOfBar(chart.y, colors), encode: { x: [1, 2], y: 0 }, z: 4 },
        {
          id: `published ${at}`, type: "scatter", data: line.published.map(([place, value]) => [value, place]), symbol: `path://${markers[look.marker]}`, symbolSize: 11,
          itemStyle: { color: "transparent", borderColor: color, borderWidth: 1.8 }, emphasis: { disabled: true }, z: 6,
        },
      ];
    });

  // The values at the pointer with their intervals, the largest first.
  const tip = (chart, hits) => {
    const rows = [].concat(hits).filter(({ seriesId }) => !seriesId.startsWith("interval"));
    if (!rows.length) return "";
    const pointOf = ({ seriesId, dataIndex }) => {
      const [kind, at] = seriesId.split(" ");
      const line = chart.lines[at];
      return { line, isPublished: kind === "published", point: kind === "published" ? line.published[dataIndex] : line.points[dataIndex] };
    };
    const points = rows.map(pointOf).sort((a, b) => b.point[1] - a.point[1]);
    const [x] = points[0].point;
    const isByShare = chart.section === "latency";
    const heading = isByShare ? `${shown(chart.y, points[0].point[1])} of I/Os complete within`
      : chart.kind === "bars" ? "" : points[0].point[4] ?? `${chart.x.label} ${shown(chart.x, x)}`;
    const isAgainst = chart.section === "figures" && points[0].point[4];
    const body = element("tbody");
    for (const { line, isPublished, point } of points.slice(0, 24)) {
      const [value, interval] = isByShare ? [shown(chart.x, point[0]), ""] : withInterval(chart.y, point);
      const more = isPublished ? "published" : interval;
      const where = isAgainst || (isPublished && chart.x.kind !== "category" && !chart.x.ticks.length) ? ` at ${shown(chart.x, point[0])} ${chart.x.label}` : "";
      body.append(element("tr", {}, element("td", {}, swatch(looks[line.look], isPublished), element("bdi", {}, line.name)), element("td", {}, value + where), element("td", {}, more)));
    }
    return element("div", { class: "tip" }, ...(heading ? [element("p", {}, heading)] : []), element("table", {}, body));
  };

  /** A name of more letters than fit in a line, broken after a comma. */
  const inTwoLines = (name, fitting) => {
    const end = name.length > fitting ? name.lastIndexOf(",", fitting) + 1 : 0;
    return end ? `${name.slice(0, end)}\n${name.slice(end)}` : name;
  };

  const optionsOf = (chart, hidden) => {
    const colors = inks();
    const visible = chart.lines.filter((_, at) => !hidden.has(at));
    const points = visible.flatMap((line) => [...line.points, ...line.published]);
    const isBars = chart.kind === "bars";
    const values = visible.flatMap((line) => [...line.points.flatMap(([, y, low, high]) => [y, low ?? y, high ?? y]), ...line.published.map(([, y]) => y)]);
    const across = { ...valueAxis(chart.y, values, colors), nameGap: 26 };
    const nameWidth = Math.min(190, innerWidth * 0.34);
    const names = {
      type: "category", data: chart.x.names, inverse: true, axisTick: { show: false }, axisLine: { lineStyle: { color: colors.rule } },
      axisLabel: { color: colors.ink, fontFamily: colors.font, fontSize: 11.5, lineHeight: 12, width: nameWidth, overflow: "truncate", interval: 0, formatter: (name) => inTwoLines(name, nameWidth / 6.5) },
    };
    const hasOwnPlaces = chart.section === "figures" ? !chart.x.ticks.length : chart.x.unit === "seconds" && visible.some((line) => line.points[0]?.[4]);
    return {
      animation: false,
      grid: { left: 4, right: isBars ? 62 : 18, top: 12, bottom: 4 },
      xAxis: isBars ? across : { ...valueAxis(chart.x, points.map(([x]) => x), colors), nameGap: 26 },
      yAxis: isBars ? names : { ...across, nameGap: 8 },
      series: isBars ? barsOf(chart, hidden, colors) : linesOf(chart, hidden, colors),
      tooltip: {
        trigger: hasOwnPlaces || isBars ? "item" : "axis", confine: true, transitionDuration: 0, backgroundColor: colors.paper, borderColor: colors.rule, padding: [5, 9],
        axisPointer: { type: "line", axis: chart.section === "latency" ? "y" : "auto", snap: true, lineStyle: { color: colors.soft } },
        formatter: (hits) => tip(chart, hits),
      },
    };
  };

  const draw = (chart) => {
    const plot = document.querySelector(`[data-chart="${chart.id}"]`);
    let entry = drawn.get(chart.id);
    if (!entry) {
      if (chart.kind === "bars") plot.style.height = `${chart.x.names.length * 25 + 60}px`;
      entry = { chart, hidden: new Set(), instance: echarts.init(plot, null, { renderer: "svg" }) };
      drawn.set(chart.id, entry);
      walkByKeys(plot, entry);
      plot.dataset.drawn = "";
    }
    entry.instance.setOption(optionsOf(chart, entry.hidden), true);
    legend(plot.parentElement.querySelector(".legend"), entry);
  };
  const legend = (place, entry) => {
    const button = (line, at) => {
      const made = element("button", { type: "button", "aria-pressed": String(!entry.hidden.has(at)), title: line.path }, swatch(looks[line.look], !line.points.length), element("bdi", {}, line.name));
      made.addEventListener("click", () => {
        if (!entry.hidden.delete(at)) entry.hidden.add(at);
        draw(entry.chart);
        place.children[at].focus();
      });
      return made;
    };
    place.replaceChildren(...entry.chart.lines.map(button));
  };
  // The left and right arrow keys move through the points of the first visible line; Escape closes the tooltip.
  const walkByKeys = (plot, { chart, hidden, instance }) => {
    let at = -1;
    plot.addEventListener("keydown", (event) => {
      const lineAt = chart.lines.findIndex((line, place) => !hidden.has(place) && line.points.length);
      if (event.key === "Escape") instance.dispatchAction({ type: "hideTip" });
      if (!["ArrowLeft", "ArrowRight"].includes(event.key) || lineAt < 0) return;
      event.preventDefault();
      const count = chart.lines[lineAt].points.length;
      at = Math.max(0, Math.min(count - 1, at + (event.key === "ArrowRight" ? 1 : -1)));
      const seriesIndex = instance.getOption().series.findIndex(({ id }) => id === `line ${lineAt}`);
      instance.dispatchAction({ type: "showTip", seriesIndex, dataIndex: at });
    });
  };

  const byId = new Map(charts.map((chart) => [chart.id, chart]));
  const nearby = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      nearby.unobserve(target);
      draw(byId.get(target.dataset.chart));
    }
  }, { rootMargin: "400px" });
  // Charts in the window are drawn at once, without waiting for the observer.
  for (const plot of document.querySelectorAll(".plot")) {
    const isInWindow = plot.checkVisibility?.() && plot.getBoundingClientRect().top < innerHeight;
    if (isInWindow) draw(byId.get(plot.dataset.chart));
    else nearby.observe(plot);
  }
  const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => drawn.get(target.dataset.chart)?.instance.resize()));
  document.querySelectorAll(".plot").forEach((plot) => resized.observe(plot));
  const redraw = () => drawn.forEach(({ chart }) => draw(chart));

  const theme = document.getElementById("theme");
  // The button names the theme that it switches to.
  const setTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    setTheme();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    setTheme();
    redraw();
  });
  setTheme();

  // A link to a chart within a collapsed load expands it.
  const open = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details:not([open])")?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();

  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, opened: [...document.querySelectorAll("details:not([open])")] };
    before.opened.forEach((details) => details.setAttribute("open", ""));
    root.dataset.theme = "light";
    charts.forEach(draw);
    // On paper a chart is as wide as the page.
    for (const svg of document.querySelectorAll(".plot svg")) {
      svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    }
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    before.opened.forEach((details) => details.removeAttribute("open"));
    if (before.theme) root.dataset.theme = before.theme;
    else delete root.dataset.theme;
    before = null;
    document.querySelectorAll(".plot svg").forEach((svg) => svg.removeAttribute("viewBox"));
    redraw();
  });
})();
