(() => {
  const { atlas, figures, baseline, picks } = JSON.parse(document.getElementById("atlas-data").textContent);
  const byId = id => document.getElementById(id), [figure, shown, study] = ["figure", "shown", "study"].map(byId);
  const map = byId("map"), detail = byId("detail"), base = atlas.columns.findIndex(column => column.name === baseline);
  const make = (tag, text, more) => Object.assign(document.createElement(tag), { textContent: text ?? "" }, more);
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  const bytes = value => {
    const power = value < 1 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10)), size = value / 1024 ** power;
    return `${size >= 100 || power === 0 ? size.toFixed(0) : size.toPrecision(3)} ${UNITS[power]}`;
  };
  const quantity = (value, unit) => value === null || value === undefined ? "–" :
    unit === "bytes" ? bytes(value) : unit[0] === "%" ? value.toFixed(1) : compact.format(value);
  const change = ratio => ratio >= 2 ? `×${ratio.toFixed(ratio < 10 ? 1 : 0)}` : `${ratio < 1 ? "−" : "+"}${Math.abs(100 * (ratio - 1)).toFixed(0)}`;
  const columns = () => atlas.columns.map((column, at) => ({ ...column, at })).filter(one => study.checked || !one.study);
  const valuesOf = program => atlas.cells[program][figure.value] ?? [];
  let sorted = null, down = false;

  // What a value is compared with: the baseline's, or the least of those that are shown. null: it is not known.
  const against = values => {
    const known = columns().map(({ at }) => values[at]).filter(value => value !== null && value !== undefined);
    return shown.value === "best" ? (known.length ? Math.min(...known) : null) : values[base] ?? null;
  };
  const ratioOf = (values, at) => {
    const own = against(values), value = values[at];
    if (value === null || value === undefined || own === null) return null;
    return own === 0 ? (value === 0 ? 1 : Infinity) : value / own;
  };
  const rows = () => {
    const found = atlas.programs.map(program => program.name).filter(name => valuesOf(name).length);
    if (sorted === null) return down ? found.reverse() : found;
    const key = name => shown.value === "value" ? valuesOf(name)[sorted] ?? null : ratioOf(valuesOf(name), sorted);
    const order = (a, b) => key(a) === null || key(b) === null ? (key(a) === null) - (key(b) === null) : (key(a) - key(b)) * (down ? -1 : 1);
    return found.sort(order);
  };
  const head = (text, small, at) => {
    const cell = make("th", "", { scope: "col" }), button = make("button", text, { type: "button", title: "Sort by this" });
    if (sorted === at) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    button.addEventListener("click", () => { down = sorted === at && !down; sorted = at; draw(); });
    cell.append(button, make("small", small));
    return cell;
  };
  const draw = () => {
    const unit = figures[figure.value].unit, top = make("tr"), body = make("tbody"), chosen = {};
    for (const row of picks[figure.value] ?? []) chosen[row.program] = row.pick;
    top.append(head("program", "", null), ...columns().map(({ name, version, at }) => head(name, version, at)));
    for (const program of rows()) {
      const values = valuesOf(program), line = make("tr"), known = columns().map(({ at }) => values[at] ?? Infinity);
      line.append(make("th", program, { scope: "row" }));
      for (const { name, at } of columns()) {
        const ratio = ratioOf(values, at), value = values[at], cell = make("td");
        const text = value === null || value === undefined ? "–" : shown.value === "value" || ratio === null || ratio === Infinity ||
          (shown.value === "baseline" && at === base) ? quantity(value, unit) : change(ratio);
        const button = make("button", text, { type: "button" });
        button.setAttribute("aria-label", `${program}, ${name}: ${quantity(value, unit)} ${unit}`);
        button.addEventListener("click", () => open(program, at));
        if (value === Math.min(...known)) cell.classList.add("best");
        if (chosen[program] === name) cell.classList.add("pick");
        if (ratio !== null) {
          if (ratio < 1) cell.classList.add("less");
          cell.style.setProperty("--s", `${Math.min(75, 75 * Math.abs(Math.log2(Math.max(ratio, 1e-9)))).toFixed(0)}%`);
        }
        cell.append(button);
        line.append(cell);
      }
      body.append(line);
    }
    map.replaceChildren(make("caption", `${figures[figure.value].name}, ${unit}`), make("thead"), body);
    map.tHead.append(top);
    byId("about").textContent = `${body.rows.length} recordings have this figure. ${shown.value === "value" ? "" : "Changes in percent; × from twice as much."}`;
  };
  const table = (title, lines) => {
    const found = make("table"), body = make("tbody");
    found.append(make("caption", title), body);
    for (const [name, ...values] of lines) {
      const row = make("tr");
      row.append(make("th", name, { scope: "row" }), ...values.map(value => make("td", value)));
      body.append(row);
    }
    return found;
  };
  const WORDS = { ideal_rss: "live bytes, at most", purged_rss: "after all is freed and a purge was asked for", vm_size: "address space",
    startup_instructions: "instructions of its start", string_bytes: "bytes set and copied by its calls" };
  const unitOf = key => figures[key]?.unit ?? (/_rss$|vm_size|bytes/.test(key) ? "bytes" : key.startsWith("cpu/") ? "%" : "");
  // Everything that is known of a cell, beside the baseline.
  const open = (program, at) => {
    const column = atlas.columns[at], found = atlas.programs.find(one => one.name === program);
    const lines = Object.entries(atlas.cells[program]).map(([key, values]) => [
      figures[key]?.name ?? WORDS[key] ?? key.replace(/^misses\/all\//, "misses: ").replace(/^instructions\//, "instructions for a ").replace(/^syscalls\//, "calls of ").replace(/^cpu\//, "CPU time: "),
      quantity(values[at], unitOf(key)), quantity(values[base], unitOf(key))]);
    const close = make("form", "", { method: "dialog" }), title = make("h3", `${program} on ${column.name} ${column.version}`, { id: "detail-title" });
    close.append(make("button", "Close", { className: "button" }));
    const about = `${plain.format(found.calls)} calls, ${found.threads} thread${found.threads === 1 ? "" : "s"}, at most ${bytes(found.peak_live_bytes)} live.`;
    const failed = atlas.failures.filter(one => one.column === column.name && (!one.program || one.program === program));
    const pick = (picks[figure.value] ?? []).find(one => one.program === program);
    detail.replaceChildren(close, title, make("p", about),
      ...failed.map(one => make("p", `Not measured, ${one.pass}: ${one.reason}.`, { className: "warn" })),
      ...(pick ? [make("p", `Nearest programs: ${pick.nearest}. They choose ${pick.pick}; the best is ${pick.best} (${figures[figure.value].name}).`)] : []),
      table("", [["", column.name, baseline], ...lines]), table("Profile", Object.entries(found.profile).map(([key, value]) =>
        [key.replaceAll("_", " "), key.endsWith("bytes") ? bytes(value) : plain.format(value)])));
    detail.showModal();
  };
  for (const control of [figure, shown, study]) control.addEventListener("change", draw);
  draw();
})();
