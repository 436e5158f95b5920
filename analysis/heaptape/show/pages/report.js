"use strict";
(() => {
  const numeric = new Intl.Collator(undefined, { numeric: true });

  // ---- Tables: clicks on a head sort ascending, then descending, then restore the order. Missing figures stay at the end.
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
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], before = [...body.rows];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      for (const other of heads) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      body.append(...(order ? [...before].sort((a, b) => compare(a, b, column, order === "descending")) : before));
    }));
  }

  // ---- Figures: zooming changes the SVG's viewBox, so that lines and text stay sharp.
  const MOST = 40;
  class Zoom {
    constructor(figure) {
      this.figure = figure;
      this.view = figure.querySelector(".view");
      this.svg = this.view.querySelector("svg");
      this.whole = this.svg.getAttribute("viewBox").split(/\s+/).map(Number);
      this.box = [...this.whole];
      this.pointers = new Map();
      this.addTools();
      this.listen();
    }
    get scale() { return this.whole[2] / this.box[2]; }
    addTools() {
      const tools = document.createElement("div");
      tools.className = "tools";
      const add = (path, label, act) => {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", title: label });
        button.innerHTML = `<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true"><path d="${path}"/></svg>`;
        button.setAttribute("aria-label", label);
        button.addEventListener("click", act);
        tools.append(button);
        return button;
      };
      add("M8 3v10M3 8h10", "Zoom in", () => this.zoom(1.6));
      add("M3 8h10", "Zoom out", () => this.zoom(1 / 1.6));
      add("M3.5 8a4.5 4.5 0 1 0 1.6-3.4M5.4 1.8v3h3", "Show all of it", () => this.reset());
      this.full = add("M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10", "Fill the window", () => this.toggle());
      this.full.setAttribute("aria-pressed", "false");
      this.figure.querySelector(".under").append(tools);
    }
    // From client coordinates to the SVG's.
    at(x, y) {
      const point = new DOMPoint(x, y).matrixTransform(this.svg.getScreenCTM().inverse());
      return [point.x, point.y];
    }
    show(box) {
      const [x, y, width, height] = this.whole;
      const w = Math.min(width, Math.max(width / MOST, box[2])), h = height * w / width;
      this.box = [Math.min(x + width - w, Math.max(x, box[0])), Math.min(y + height - h, Math.max(y, box[1])), w, h];
      this.svg.setAttribute("viewBox", this.box.map(n => n.toFixed(3)).join(" "));
      this.figure.classList.toggle("zoomed", this.scale > 1.001);
      this.figure.dataset.scale = this.scale.toFixed(2);
    }
    zoom(factor, centre) {
      const [x, y, w, h] = this.box, [cx, cy] = centre || [x + w / 2, y + h / 2];
      const to = Math.min(MOST, Math.max(1, this.scale * factor)) / this.scale;
      this.show([cx - (cx - x) / to, cy - (cy - y) / to, w / to, h / to]);
    }
    move(dx, dy) { this.show([this.box[0] + dx, this.box[1] + dy, this.box[2], this.box[3]]); }
    reset() { this.show(this.whole); }
    toggle(on = !this.figure.classList.contains("wide")) {
      this.figure.classList.toggle("wide", on);
      this.full.setAttribute("aria-pressed", String(on));
      document.documentElement.style.overflow = on ? "hidden" : "";
      if (on) this.view.focus();
    }
    listen() {
      const view = this.view;
      // The wheel scrolls the page, unless the figure was clicked or Ctrl is held.
      view.addEventListener("wheel", event => {
        const turned = this.figure.contains(document.activeElement) || this.figure.classList.contains("wide");
        if (!event.ctrlKey && !turned) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), this.at(event.clientX, event.clientY));
      }, { passive: false });
      view.addEventListener("dblclick", event => { event.preventDefault(); this.reset(); });
      view.addEventListener("keydown", event => this.key(event));
      view.addEventListener("pointerdown", event => this.down(event));
      view.addEventListener("pointermove", event => this.drag(event));
      for (const kind of ["pointerup", "pointercancel"]) view.addEventListener(kind, event => this.up(event));
    }
    key(event) {
      const step = this.box[2] / 8, [, , w, h] = this.box;
      const acts = {
        "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), "0": () => this.reset(),
        ArrowLeft: () => this.move(-step, 0), ArrowRight: () => this.move(step, 0),
        ArrowUp: () => this.move(0, -step * h / w), ArrowDown: () => this.move(0, step * h / w),
        Escape: () => this.figure.classList.contains("wide") ? this.toggle(false) : this.reset(),
        f: () => this.toggle(),
      };
      const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
      const moves = event.key.startsWith("Arrow") && this.scale <= 1.001;
      if (plain && !moves && acts[event.key]) { event.preventDefault(); acts[event.key](); }
    }
    down(event) {
      if (event.button !== 0) return;
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.start = [event.clientX, event.clientY];
      // One finger on an unzoomed figure scrolls the page; two fingers, or one on a zoomed figure, are handled here.
      if (event.pointerType !== "touch" || this.scale > 1.001) view_capture(this.view, event.pointerId);
    }
    drag(event) {
      const last = this.pointers.get(event.pointerId);
      if (!last) return;
      const now = [event.clientX, event.clientY];
      if (this.pointers.size === 2) {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const distance = p => Math.hypot(p[0] - other[0], p[1] - other[1]);
        this.zoom(distance(now) / Math.max(distance(last), 1), this.at((now[0] + other[0]) / 2, (now[1] + other[1]) / 2));
      } else if (this.scale > 1.001 && !this.marked) {
        this.figure.classList.add("dragging");
        const [x0, y0] = this.at(...last), [x1, y1] = this.at(...now);
        this.move(x0 - x1, y0 - y1);
      } else if (event.pointerType !== "touch" && Math.hypot(now[0] - this.start[0], now[1] - this.start[1]) > 5) {
        this.mark(now);
      }
      this.pointers.set(event.pointerId, now);
    }
    // A rectangle drawn on an unzoomed figure becomes the part that is shown.
    mark(now) {
      if (!this.marked) {
        this.marked = document.createElement("div");
        this.marked.className = "box";
        this.figure.append(this.marked);
      }
      const own = this.figure.getBoundingClientRect(), left = Math.min(now[0], this.start[0]);
      const top = Math.min(now[1], this.start[1]);
      Object.assign(this.marked.style, {
        left: `${left - own.left}px`, top: `${top - own.top}px`,
        width: `${Math.abs(now[0] - this.start[0])}px`, height: `${Math.abs(now[1] - this.start[1])}px`,
      });
    }
    up(event) {
      this.pointers.delete(event.pointerId);
      this.figure.classList.remove("dragging");
      if (!this.marked) return;
      this.marked.remove();
      this.marked = null;
      const [x0, y0] = this.at(...this.start), [x1, y1] = this.at(event.clientX, event.clientY);
      const w = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0) * this.whole[2] / this.whole[3]);
      const h = w * this.whole[3] / this.whole[2];
      if (event.type === "pointerup" && w > this.whole[2] / 60) this.show([(x0 + x1 - w) / 2, (y0 + y1 - h) / 2, w, h]);
    }
  }
  const view_capture = (view, id) => { try { view.setPointerCapture(id); } catch { /* a pointer made by a script */ } };
  for (const figure of document.querySelectorAll("figure.zoom")) new Zoom(figure);

  // ---- Raw results: the same text as the results file (packed as in number_columns.py).
  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
  const ofBase85 = text => {
    const bytes = new Uint8Array(4 * Math.ceil(text.length / 5)), view = new DataView(bytes.buffer);
    const digits = new Map([...LETTERS].map((letter, digit) => [letter, digit]));
    for (let at = 0; at < text.length; at += 5) {
      let number = 0;
      for (let n = at; n < at + 5; ++n) number = 85 * number + (n < text.length ? digits.get(text[n]) : 84);
      view.setUint32(at / 5 * 4, number);
    }
    return bytes.subarray(0, bytes.length - (5 - text.length % 5) % 5);
  };
  const ofPlanes = (bytes, at, count, planes) => {
    const numbers = new Array(count).fill(0);
    for (let plane = 0, scale = 1; plane < planes; ++plane, scale *= 256)
      for (let n = 0; n < count; ++n) numbers[n] += bytes[at + plane * count + n] * scale;
    return numbers;
  };
  const sums = numbers => { let sum = 0; return numbers.map(number => sum += number); };
  const columnsOf = (head, bytes, at) => {
    let before = [];
    return head.columns.map(([how, count, planes, distinct, tablePlanes]) => {
      const table = sums(ofPlanes(bytes, at, distinct, tablePlanes));
      at += distinct * tablePlanes;
      const folded = ofPlanes(bytes, at, count, planes).map(number => distinct ? table[number] : number);
      at += count * planes;
      const rest = folded.map(number => number % 2 ? -(number + 1) / 2 : number / 2);
      before = how === 2 ? rest.map((number, n) => number + before[n]) : how === 1 ? sums(rest) : rest;
      return before;
    });
  };
  const together = (bytes) => {
    const begin = bytes.indexOf(10) + 1, head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, begin)));
    const end = begin + head.text_bytes, lines = new TextDecoder().decode(bytes.subarray(begin, end)).split("\n");
    const whole = lines.pop(), columns = columnsOf(head, bytes, end), taken = columns.map(() => 0), vectors = [];
    const texts = lines.slice(head.shared).map(line => line.split(" ").values());
    const take = (column, count) => columns[column].slice(taken[column], taken[column] += count);
    const vector = (item, count) => {
      const place = Number(item.slice(1));
      return item[0] === "v" ? vectors[place] : vectors[vectors.push(take(place, count)) - 1];
    };
    return whole.replace(/([\x01-\x05])([^;]*);/g, (_, mark, inner) => {
      const [place, ...items] = inner.split(",");
      if (mark === "\x01") return take(place, 1)[0];
      if (mark === "\x02") return texts[place].next().value;
      if (mark === "\x03") return lines[place];
      const count = take(place, 1)[0], found = items.map(item => vector(item, count));
      return JSON.stringify(mark === "\x05" ? found[0] : found[0].map((_, n) => found.map(numbers => numbers[n])));
    });
  };
  const results = async (script) => {
    const held = JSON.parse(script.textContent);
    const stream = new Blob([ofBase85(held.data)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const text = together(new Uint8Array(await new Response(stream).arrayBuffer()));
    return { name: held.name, text: text + "\n" };
  };
  window.heaptapeResults = (number) => results(document.getElementById(`raw${number}`));
  const saving = document.getElementById("saving");
  const save = async (number) => {
    const { name, text } = await window.heaptapeResults(number), link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  const refuse = error => { saving.textContent = typeof DecompressionStream === "undefined" ?
    "This browser is too old to unpack the data (it has no DecompressionStream). The heaptape command reads this page." :
    `The data can’t be unpacked: ${error.message}`; };
  for (const button of document.querySelectorAll("button.save"))
    button.addEventListener("click", () => { saving.textContent = ""; save(button.dataset.raw).catch(refuse); });

  // ---- Contents: closed where they would push the page down; the visible part is marked; print shows everything.
  const contents = document.querySelector(".contents details"), wide = window.matchMedia("(min-width: 75rem)");
  const fit = () => { contents.open = wide.matches; };
  fit();
  wide.addEventListener("change", fit);
  window.addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach(d => { d.open = true; }));
  const links = new Map([...document.querySelectorAll(".contents a")].map(a => [a.hash.slice(1), a]));
  const parts = [...document.querySelectorAll("main [id]")].filter(part => links.has(part.id));
  let waiting = false;
  const markCurrent = () => {
    waiting = false;
    let current = parts[0];
    for (const part of parts) if (part.getBoundingClientRect().top < window.innerHeight / 3) current = part;
    for (const [id, link] of links) {
      if (current && id === current.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  window.addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(markCurrent); } });
  markCurrent();
})();
