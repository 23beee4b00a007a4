// Any two builds side by side. The rules are a table in compare-data.js, made by the code that also makes changes.html;
// here they are only looked up. The choice is in location.hash, so that it can be linked. Text of records enters the
// page as text nodes only.
"use strict";

(() => {
  const data = globalThis.canishardCompare;
  const field = (id) => document.getElementById(id);
  const ABSENT = data.statuses.length;
  const SAME = data.changes.findIndex(([name]) => name === "same");

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // Offers the choices, and chooses what is wanted, else the one at a place, else the first.
  function fill(select, choices, wanted, place = 0) {
    select.replaceChildren(...choices.map(([value, text]) => element("option", { value }, text)));
    const [otherwise] = choices[place] ?? choices[0];
    select.value = choices.some(([value]) => value === wanted) ? wanted : otherwise;
  }

  function change(old, fresh) {
    const [oldStatus, oldDeviation] = data.states[old] ?? [ABSENT, ""];
    const [newStatus, newDeviation] = data.states[fresh] ?? [ABSENT, ""];
    return data.lookup[oldStatus][newStatus][oldDeviation === newDeviation ? 0 : 1];
  }

  // Rows that changed alike with several numbers of ranks share a line; rows are sorted, so they are neighbours.
  function lines(group, old, fresh) {
    const found = new Map();
    group.rows.forEach(([id, stem, ranks], index) => {
      const [before, after] = [group.cells[old][index], group.cells[fresh][index]];
      const key = `${id} ${before} ${after}`;
      const line = found.get(key) ?? { id, stem, before, after, change: change(before, after), ranks: [] };
      line.ranks.push(ranks);
      found.set(key, line);
    });
    return [...found.values()];
  }

  function side(group, build, line, state) {
    if (state < 0) return element("td", {}, "absent");
    const [status, deviation] = data.states[state];
    const name = data.statuses[status];
    const href = `rows/${line.stem}.html#${group.builds[build][2]}-${line.ranks[0]}`;
    const badge = element("a", { className: `s s-${name}`, href }, name.replace("_", " "));
    return element("td", {}, badge, deviation ? ` ${deviation}` : "");
  }

  function row(group, old, fresh, line) {
    const link = element("a", { className: "id", href: `rows/${line.stem}.html` }, line.id);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, link),
      element("td", {}, line.ranks.join(", ")),
      side(group, old, line, line.before),
      side(group, fresh, line, line.after),
    );
  }

  function section(group, old, fresh, kind, some) {
    const [, word, meaning] = data.changes[kind];
    const title = `${word[0].toUpperCase()}${word.slice(1)}: ${cells(some)}`;
    const heads = ["row", "ranks", group.builds[old][0], group.builds[fresh][0]];
    const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
    const body = element("tbody", {}, ...some.map((line) => row(group, old, fresh, line)));
    const table = element("table", { className: "data moved" }, element("thead", {}, head), body);
    return element(
      "section",
      {},
      element("h2", {}, title),
      element("p", { className: "small muted" }, `The row ${meaning}.`),
      element("div", { className: "scroll" }, table),
    );
  }

  function cells(some) {
    const number = some.reduce((sum, line) => sum + line.ranks.length, 0);
    return `${number} cell${number === 1 ? "" : "s"}`;
  }

  function show() {
    const group = data.groups.find((one) => one.key === field("group").value);
    const at = (id) => group.builds.findIndex(([key]) => key === field(id).value);
    const [old, fresh] = [at("old"), at("new")];
    const all = lines(group, old, fresh);
    const kinds = data.changes
      .map((_, kind) => [kind, all.filter((line) => line.change === kind)])
      .filter(([kind, some]) => kind !== SAME && some.length);
    field("found").replaceChildren(...kinds.map(([kind, some]) => section(group, old, fresh, kind, some)));
    const counts = kinds.map(([kind, some]) => `${cells(some)} ${data.changes[kind][1]}`);
    const same = cells(all.filter((line) => line.change === SAME));
    field("said").textContent = `${counts.join(", ") || "No cell differs"}; ${same} the same.`;
  }

  function choices() {
    const group = data.groups.find((one) => one.key === field("group").value);
    return group.builds.map(([key, title]) => [key, title]);
  }

  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    fill(field("group"), data.groups.map((one) => [one.key, one.title]), wanted.get("group"));
    const builds = choices();
    fill(field("new"), builds, wanted.get("new"));
    fill(field("old"), builds, wanted.get("old"), 1);
    show();
  }

  function store() {
    const chosen = new URLSearchParams(["old", "new", "group"].map((id) => [id, field(id).value]));
    history.replaceState(null, "", `#${chosen}`);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    if (!data.groups.length) {
      field("said").textContent = "Nothing was measured yet.";
      return;
    }
    restore();
    addEventListener("hashchange", restore);
    for (const id of ["old", "new"]) field(id).addEventListener("change", store);
    field("group").addEventListener("change", () => {
      const builds = choices();
      fill(field("new"), builds, field("new").value);
      fill(field("old"), builds, field("old").value, 1);
      store();
    });
    field("swap").addEventListener("click", () => {
      const [old, fresh] = [field("old").value, field("new").value];
      fill(field("old"), choices(), fresh);
      fill(field("new"), choices(), old);
      store();
    });
  });
})();
