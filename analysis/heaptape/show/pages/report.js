"use strict";
(() => {
  document.documentElement.classList.add("js");
  const all = selector => [...document.querySelectorAll(selector)];

  // ---- Tables: clicks on a head sort ascending, then descending, then restore the order. Missing figures stay at the end.
  const numeric = new Intl.Collator(undefined, { numeric: true });
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const compare = (a, b, column, down) => {
    const sign = down ? -1 : 1, [x, y] = [value(a, column), value(b, column)];
    if (column === 0) return sign * numeric.compare(a.cells[0].textContent, b.cells[0].textContent);
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  };
  for (const table of all("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], before = [...body.rows];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      for (const other of heads) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      body.append(...(order ? [...before].sort((a, b) => compare(a, b, column, order === "descending")) : before));
    }));
  }
  const source = document.getElementById("data");
  if (!source) return; // the profile's page has tables only

  // ---- Charts
  const data = JSON.parse(source.textContent);
  const ink = name => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const FONT = "12px system-ui, sans-serif";
  const axis = (label, more) => ({
    label, font: FONT, labelFont: FONT, labelSize: 18, stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 },
    ticks: { stroke: ink("--line"), width: 1, size: 4 }, ...more,
  });
  const mib = (_, number) => number === null || number === undefined ? "–" : `${number.toFixed(1)} MiB`;
  const ops = axis("progress, ops", { values: (_, ticks) => ticks.map(tick => short.format(tick)), size: 34 });
  const counts = { label: "ops", value: (_, number) => number === null ? "–" : short.format(number) };
  const overProgress = (height, series, most) => ({
    height, series: [counts, ...series], axes: [ops, axis("MiB", { size: 48 })],
    scales: { x: { time: false }, y: { range: (_, __, top) => [0, (most || top || 1) * 1.05] } },
    cursor: { points: { size: 6 }, drag: { x: true, y: false } }, legend: { live: true },
  });
  const styled = label => ({ stroke: data.colours[label].color, dash: data.colours[label].dash, width: 1.6 });
  const points = { show: false };

  const memory = ({ memory: found }) => {
    const held = uPlot.paths.stepped({ align: 1 }), series = [
      { label: "live", fill: ink("--area"), width: 0, paths: held, value: mib, points },
      ...(found.recorded ? [{ label: "recorded process", stroke: ink("--soft"), dash: [2, 3], value: mib, points }] : []),
      ...found.lines.map(([label]) => ({ label, ...styled(label), paths: held, value: mib, points })),
    ];
    const columns = [found.x, found.live, ...(found.recorded ? [found.recorded] : []), ...found.lines.map(line => line[1])];
    return [overProgress(300, series), columns];
  };

  // One of many workloads: all have one scale of x, the share of the whole progress, and each its own of y.
  const small = of => {
    const [options, [x, ...columns]] = memory(of), end = Math.max(...x) || 1;
    return [{
      ...options, height: 130, legend: { show: false }, scales: { ...options.scales, x: { time: false, range: [0, 100] } },
      axes: [axis(undefined, { size: 24, values: (_, ticks) => ticks.map(tick => `${tick} %`) }), axis("MiB", { size: 44 })],
    }, [x.map(op => 100 * op / end), ...columns]];
  };

  // Layers on top of one another: the topmost is drawn first, each down to 0. A hidden layer leaves no gap.
  const layered = ({ layers: found }, host) => {
    const { x, layers } = found[host.dataset.part][host.parentElement.querySelector("select").value];
    const shown = layers.map(() => true);
    const columns = () => {
      let below = x.map(() => 0);
      const sums = layers.map(([, , values], n) => below = shown[n] ? below.map((sum, at) => sum + values[at]) : below);
      return [x, ...sums.reverse()];
    };
    const series = layers.map(([label, colour, values]) => ({
      label, fill: colour, stroke: colour, width: 0.5, paths: uPlot.paths.stepped({ align: 1 }), points,
      value: (u, number, _, at) => mib(u, at === null ? null : values[at]),
    })).reverse();
    const hooks = { setSeries: [(chart, number, options) => {
      if (number === null || options.show === undefined || shown[layers.length - number] === options.show) return;
      shown[layers.length - number] = options.show;
      chart.setData(columns());
    }] };
    return [{ ...overProgress(260, series), hooks }, columns()];
  };

  // One series per allocator with one point, its name beside it, and the range of its CPU time.
  const scatter = ({ points: found, cost, size }) => {
    const sorted = [...found].sort((a, b) => a.x - b.x), xs = sorted.flatMap(p => [p.low ?? p.x, p.high ?? p.x]);
    const ys = sorted.map(p => p.y), pad = (least, most, share) => {
      const room = (most - least || Math.abs(most) || 1) * share;
      return [least - room, most + room];
    };
    const drawNames = chart => {
      const { ctx } = chart, pixels = devicePixelRatio;
      ctx.save();
      ctx.font = `${12 * pixels}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      const right = chart.bbox.left + chart.bbox.width, line = 13 * pixels, dot = 5 * pixels;
      const taken = sorted.map(point => ({
        x: chart.valToPos(point.x, "x", true) - dot, y: chart.valToPos(point.y, "y", true), width: 2 * dot,
      }));
      const free = box => box.x >= chart.bbox.left && box.x + box.width <= right &&
        !taken.some(b => Math.abs(b.y - box.y) < line && b.x < box.x + box.width && box.x < b.x + b.width);
      for (const point of sorted) {
        const at = number => chart.valToPos(number, "x", true), x = at(point.x), y = chart.valToPos(point.y, "y", true);
        ctx.strokeStyle = ctx.fillStyle = data.colours[point.label].color;
        ctx.lineWidth = 1.5 * pixels;
        if (point.low !== undefined) {
          ctx.beginPath();
          ctx.moveTo(at(point.low), y);
          ctx.lineTo(at(point.high), y);
          ctx.stroke();
        }
        ctx.beginPath();
        ctx.arc(x, y, dot, 0, 2 * Math.PI);
        ctx.fill();
        const width = ctx.measureText(point.label).width, beside = 9 * pixels;
        const places = [[x + beside, y], [x - width - beside, y]]; // then above and below, ever further away
        for (let away = 1; away < 6; away++)
          for (const way of [-away, away])
            for (const begin of [x - width / 2, x - dot, x - width + dot]) places.push([begin, y + way * line]);
        const boxes = places.map(([begin, middle]) => ({ x: begin, y: middle, width }));
        const box = boxes.find(free) ?? boxes[0];
        taken.push(box);
        ctx.fillStyle = ink("--ink")();
        ctx.fillText(point.label, box.x, box.y);
      }
      ctx.restore();
    };
    return [{
      height: 300, legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { show: false } },
      series: [{}, ...sorted.map(({ label }) => ({ label, stroke: data.colours[label].color, points, paths: () => null }))],
      scales: {
        x: { time: false, range: () => pad(Math.min(...xs, 0), Math.max(...xs, 0), 0.1) },
        y: { range: () => pad(Math.min(...ys), Math.max(...ys), 0.15) },
      },
      axes: [axis(cost, { size: 34, values: (_, ticks) => ticks.map(tick => `${tick > 0 ? "+" : ""}${tick}`) }),
        axis(size, { size: 56 })],
      hooks: { draw: [drawNames] },
    }, [sorted.map(p => p.x), ...sorted.map((p, n) => sorted.map((_, m) => m === n ? p.y : null))]];
  };

  const kinds = { memory, small, layers: layered, scatter }, charts = new Map();
  const make = host => {
    charts.get(host)?.destroy();
    const of = host.dataset.of === "all" ? data.all : data.workloads[host.dataset.of];
    const [options, columns] = kinds[host.dataset.kind](of, host);
    const chart = new uPlot({ ...options, width: host.clientWidth }, columns, host);
    charts.set(host, chart);
    // Legends by keyboard, as by mouse.
    host.querySelectorAll(".u-series th").forEach(name => {
      name.tabIndex = 0;
      name.setAttribute("role", "button");
      name.addEventListener("keydown", event => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); name.click(); }
      });
    });
    return chart;
  };
  const keys = (host, event) => {
    const chart = charts.get(host), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") chart.setData(chart.data);
    else if (step) {
      const at = Math.max(0, Math.min(chart.data[0].length - 1, (chart.cursor.idx ?? 0) + step));
      chart.setCursor({ left: chart.valToPos(chart.data[0][at], "x"), top: 0 });
    } else return;
    event.preventDefault();
  };
  // A chart is made when it first has a width: those in closed parts of the page are not made before these are opened.
  const watch = new ResizeObserver(entries => entries.forEach(({ target, contentRect: { width } }) => {
    if (width && !charts.has(target)) make(target);
    else if (width) charts.get(target).setSize({ width, height: charts.get(target).height });
  }));
  for (const host of all(".chart")) {
    watch.observe(host);
    host.addEventListener("keydown", event => keys(host, event));
  }
  for (const media of ["(prefers-color-scheme: dark)", "print"]) // the ink is another then
    matchMedia(media).addEventListener("change", () => charts.forEach(chart => chart.redraw(false)));
  for (const choice of all("figure.picked select")) {
    const figure = choice.closest("figure"), picture = figure.querySelector("img");
    const show = () => {
      if (!picture) { const host = figure.querySelector(".chart"); if (host.clientWidth) make(host); return; }
      picture.src = data.workloads[figure.closest(".maps").dataset.of].maps[choice.value];
      picture.alt = `Memory by address over progress: ${choice.value}`;
    };
    choice.addEventListener("change", show);
    if (picture) show();
  }

  // ---- Copy, links into closed parts, print
  for (const button of all("button.copy")) button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try { await navigator.clipboard.writeText(code.textContent); } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target || null; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  all("#workloads a").forEach(link => link.addEventListener("click", () => setTimeout(reveal)));
  reveal();
  // Of many workloads only those are printed that are open. Paper is narrower than a screen, and no observer is called for it.
  const PAPER_WIDTH = 680; // CSS pixels: A4 and US letter without their margins
  let opened = [];
  const resize = most => all(".chart").filter(host => host.clientWidth).forEach(host => {
    const chart = charts.get(host) || make(host);
    chart.setSize({ width: Math.min(host.clientWidth, most), height: chart.height });
  });
  window.addEventListener("beforeprint", () => {
    opened = document.querySelector(".many") ? [] : all("details.workload, #recordings, #methods").filter(part => !part.open);
    opened.forEach(part => { part.open = true; });
    resize(PAPER_WIDTH);
  });
  window.addEventListener("afterprint", () => {
    opened.forEach(part => { part.open = false; });
    resize(Infinity);
  });

  // ---- Raw results: the same text as the results file.
  const results = async script => {
    const { name, data: packed } = JSON.parse(script.textContent), bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return { name, text: await new Response(stream).text() };
  };
  const saving = document.getElementById("saving");
  const save = async number => {
    const { name, text } = await results(document.getElementById(`raw${number}`)), link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text, "\n"], { type: "application/json" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  const refuse = error => { saving.textContent = typeof DecompressionStream === "undefined" ?
    "This browser is too old to unpack the data (it has no DecompressionStream). The heaptape command reads this page." :
    `The data can’t be unpacked: ${error.message}`; };
  for (const button of all("button.save"))
    button.addEventListener("click", () => { saving.textContent = ""; save(button.dataset.raw).catch(refuse); });
})();
