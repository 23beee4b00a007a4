// The table's filters. What is chosen lives in the part of the address behind "#", so that a view can be linked;
// loading such a link, and going back and forward, restores the controls. Nothing is fetched: the texts that the
// search looks through beyond the page itself come by a script tag, once they are needed, also below file://.
"use strict";

(() => {
  const FIELDS = ["q", "family", "status", "from", "to", "supported", "differ", "open"];
  let grid, form, columns, rows, hiding;

  // ---- reading the page ---------------------------------------------------------------------------

  function readColumns() {
    const heads = [...grid.tHead.rows[0].cells].slice(1);
    const minors = [...new Set(heads.map((head) => head.dataset.minor))];
    return heads.map((head) => ({
      head,
      minor: head.dataset.minor,
      age: minors.indexOf(head.dataset.minor), // 0 is the newest
      anchor: head.dataset.anchor + grid.dataset.worldSize,
      supported: "supported" in head.dataset,
      folded: "folded" in head.dataset,
      measured: head.dataset.anchor !== "", // Else there is no record, and every row would differ there.
      shown: true,
    }));
  }

  function readCell(cell, target) {
    // A plain pass is written without its link, which would be most of the page's size.
    for (const plain of cell.querySelectorAll("a:not([href])")) plain.href = target;
    const builds = cell.className ? [cell] : [...cell.children];
    return builds.map((build) => build.className.slice("s-".length));
  }

  function readRows() {
    const found = [];
    for (const body of grid.tBodies) {
      let feature = null;
      for (const line of body.rows) {
        const head = line.cells[0];
        if (line.className === "feat") feature = line;
        if (line.className) continue;
        const link = head.querySelector("a");
        const quirks = [...head.querySelectorAll(".why")].map((why) => why.title);
        found.push({
          line,
          feature,
          body,
          id: link.textContent,
          text: [head.textContent, feature ? feature.textContent : "", ...quirks].join(" ").toLowerCase(),
          seen: columns.map((column, number) =>
            readCell(line.cells[number + 1], `${link.getAttribute("href")}#${column.anchor}`),
          ),
        });
      }
    }
    return found;
  }

  // Texts of records and numbers of issues, by row; the file calls canishardTexts.
  function loadTexts() {
    if (window.canishardTexts) return;
    window.canishardTexts = (texts) => {
      for (const row of rows) row.text += ` ${(texts[row.id] || "").toLowerCase()}`;
      apply();
    };
    const script = document.createElement("script");
    script.src = "../search.js";
    document.head.append(script);
  }

  // ---- the state: controls and address ------------------------------------------------------------

  function chosen() {
    const state = {};
    for (const field of FIELDS) {
      const control = form.elements[field];
      state[field] = control.type === "checkbox" ? (control.checked ? "1" : "") : control.value.trim();
    }
    return state;
  }

  function choose(state) {
    for (const field of FIELDS) {
      const control = form.elements[field];
      const value = state.get(field) || "";
      if (control.type === "checkbox") control.checked = value === "1";
      else control.value = value;
      if (control.selectedIndex === -1) control.value = ""; // There is no such choice here.
    }
  }

  function hash() {
    const state = new URLSearchParams();
    for (const [field, value] of Object.entries(chosen())) if (value) state.set(field, value);
    return `#${state}`;
  }

  // A form on another page sends "?q="; what stands behind "#" without "=" is an anchor and no state.
  function restore() {
    const [, written] = location.href.split("#");
    if (written && !written.includes("=")) return apply();
    choose(new URLSearchParams(written === undefined ? location.search : written));
    return apply();
  }

  // Each choice is a step to go back to, each letter is not.
  function changed(isStep) {
    history[isStep ? "pushState" : "replaceState"](null, "", hash());
    apply();
  }

  // ---- showing ------------------------------------------------------------------------------------

  function showColumns(state) {
    const open = state.open.split(",");
    const age = (minor, otherwise) => (columns.find((column) => column.minor === minor) || { age: otherwise }).age;
    const [oldest, newest] = [age(state.from, Infinity), age(state.to, -1)];
    for (const column of columns) {
      column.shown =
        column.age <= oldest &&
        column.age >= newest &&
        (column.supported || !state.supported) &&
        (!column.folded || open.includes(column.minor));
      const button = column.head.querySelector("button");
      if (button) button.setAttribute("aria-expanded", String(open.includes(column.minor)));
    }
    const hidden = columns
      .map((column, number) => (column.shown ? "" : `#matrix tr > :nth-child(${number + 2})`))
      .filter(Boolean);
    hiding.textContent = hidden.length ? `${hidden.join(",")} { display: none }` : "";
  }

  function fits(row, state, words) {
    if (state.family && row.body.dataset.family !== state.family) return false;
    const seen = row.seen.filter((_, number) => columns[number].shown && columns[number].measured);
    if (state.differ && new Set(seen.map(String)).size < 2) return false;
    const wanted = state.status === "not-pass" ? (one) => one !== "pass" : (one) => one === state.status;
    if (state.status && !seen.some((builds) => builds.some(wanted))) return false;
    return words.every((word) => row.text.includes(word));
  }

  function apply() {
    const state = chosen();
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) loadTexts();
    showColumns(state);
    const shown = rows.filter((row) => fits(row, state, words));
    const parts = new Set([].concat(...shown.map((row) => [row.line, row.feature, row.body])));
    for (const part of grid.querySelectorAll("tbody, tbody tr:not(.fam)")) part.hidden = !parts.has(part);
    const releases = columns.filter((column) => column.shown).length;
    form.elements.count.value =
      `${shown.length} of ${rows.length} rows, ${releases} of ${columns.length} releases`;
    for (const link of document.querySelectorAll(".switch a")) link.hash = hash(); // The same view, elsewhere.
  }

  // ---- patches that are folded under the newest one of their minor --------------------------------

  function toggle(minor) {
    const open = new Set(form.elements.open.value.split(",").filter(Boolean));
    if (!open.delete(minor)) open.add(minor);
    form.elements.open.value = [...open].join();
    changed(true);
  }

  function addButtons() {
    for (const column of columns.filter((one) => !one.folded)) {
      const older = columns.filter((one) => one.folded && one.minor === column.minor).length;
      if (!older) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `+${older}`;
      button.title = `Older patches of ${column.minor}`;
      button.setAttribute("aria-label", button.title);
      button.addEventListener("click", () => toggle(column.minor));
      column.head.append(button);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    grid = document.getElementById("matrix");
    form = document.getElementById("filters");
    hiding = document.head.appendChild(document.createElement("style"));
    columns = readColumns();
    rows = readRows();
    addButtons();
    form.addEventListener("input", (event) => changed(event.target.name !== "q"));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      choose(new URLSearchParams());
      changed(true);
    });
    form.elements.q.addEventListener("focus", loadTexts);
    window.addEventListener("popstate", restore);
    restore();
  });
})();
