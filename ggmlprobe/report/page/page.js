"use strict";

const FILTERED = 6;

function value(row, column) {
  return row.cells[column] ? row.cells[column].textContent : "";
}

// "-" and blank have no number and stay last; "12%" and "1-3" sort by what they begin with
function number(text) {
  const found = parseFloat(text);
  return Number.isNaN(found) ? null : found;
}

function compare(a, b, numeric) {
  if (!numeric) return a.localeCompare(b, "en", { numeric: true });
  const x = number(a), y = number(b);
  if (x === null || y === null) return (x === null) - (y === null);
  return x - y;
}

function sort(table, column, down) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const texts = rows.map((row) => value(row, column));
  const numeric = texts.every((text) => text === "-" || text === "" || number(text) !== null);
  const missing = (text) => numeric && number(text) === null;
  rows.sort((p, q) => {
    const a = value(p, column), b = value(q, column);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return compare(a, b, numeric) * (down ? -1 : 1);
  });
  body.append(...rows);
}

function makeSortable(table) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table, column, down);
    });
  });
  return heads.map((head) => head.textContent);
}

function verdictSelect(rows, column) {
  const select = document.createElement("select");
  select.setAttribute("aria-label", "verdict");
  const there = Array.from(new Set(rows.map((row) => value(row, column))));
  for (const text of ["", ...there]) {
    const option = document.createElement("option");
    option.value = text;
    option.textContent = text || "all verdicts";
    select.append(option);
  }
  return select;
}

function makeFilter(table, names) {
  const rows = Array.from(table.tBodies[0].rows);
  const column = names.indexOf("verdict");
  const tools = document.createElement("div");
  tools.className = "tools";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "filter rows";
  input.setAttribute("aria-label", "filter rows");
  const select = column < 0 ? null : verdictSelect(rows, column);
  const shown = document.createElement("output");
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const wanted = !select || !select.value || value(row, column) === select.value;
      row.hidden = !(wanted && words.every((word) => text.includes(word)));
      count += !row.hidden;
    }
    shown.textContent = `${count} of ${rows.length} rows`;
  };
  tools.append(input, ...(select ? [select] : []), shown);
  tools.addEventListener("input", apply);
  table.parentElement.before(tools);
  apply();
}

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  const names = makeSortable(table);
  if (table.tBodies[0].rows.length >= FILTERED) makeFilter(table, names);
}
