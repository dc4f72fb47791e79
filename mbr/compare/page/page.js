"use strict";
// Shows the segments and matrices that the reader selects. Texts enter by textContent only, so none is ever markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const labels = data.rows.map((row) => row.label);
  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

  function make(name, words, kind) {
    const element = document.createElement(name);
    if (["p", "td", "option"].includes(name)) element.dir = "auto"; // texts may run from right to left
    if (words !== undefined) element.textContent = words;
    if (kind) element.className = kind;
    return element;
  }

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, words]) => {
      const option = make("option", words);
      option.value = value;
      return option;
    }));
    select.value = chosen;
  }

  // Dark or light.
  const theme = find("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    if (data.studies.length) drawMaps();
  });

  // The table is sorted by a click on its head, and back to its own order by a third.
  const body = document.querySelector("#scores tbody");
  const own = [...body.rows];
  document.querySelectorAll("#scores thead th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.ariaSort || "none"];
      document.querySelectorAll("#scores thead th").forEach((other) => { other.ariaSort = "none"; });
      head.ariaSort = next;
      const value = (row) => {
        const cell = row.cells[column];
        if (!column) return cell.textContent;
        return cell && cell.dataset.value ? Number(cell.dataset.value) : null;
      };
      const sign = next === "ascending" ? 1 : -1;
      const sorted = next === "none" ? own : [...own].sort((rowA, rowB) => {
        const [x, y] = [value(rowA), value(rowB)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (x < y ? -1 : x > y ? 1 : 0);
      });
      body.append(...sorted);
    });
  });

  // Segments where two rows disagree.
  const PAGE = 20;
  const [a, b, margin, search, order] = ["a", "b", "margin", "search", "order"].map(find);
  let shown = PAGE;

  function openingPair() {
    const settings = data.rows.map((row, place) => [row.kind, place]).filter(([kind]) => kind === "setting" || kind === "quality");
    const first = settings.length ? settings[0][1] : Math.min(2, labels.length - 1);
    const second = settings.length > 1 ? settings[settings.length - 1][1] : 0;
    return [first, second];
  }

  // The regret of one row's choice under another row; null where that row has no scores.
  function regret(segment, chooser, scorer) {
    const column = data.settings.indexOf(labels[scorer]);
    return column < 0 ? null : segment.regrets[chooser][column];
  }

  function marginOf(segment, rowA, rowB) {
    const regrets = [regret(segment, rowB, rowA), regret(segment, rowA, rowB)].filter((value) => value !== null);
    return regrets.length ? Math.max(...regrets) : null;
  }

  // Words; signs of scripts that put no spaces between words are pieces of their own.
  const PIECES = new RegExp(
    "\\s+|[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}]\\p{M}*" +
    "|(?:(?![\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}])[\\p{L}\\p{N}\\p{M}'’-])+" +
    "|[^\\s\\p{L}\\p{N}\\p{M}]", "gu");
  const pieces = (text) => text.match(PIECES) || [];

  // Both texts in pieces, those marked that are not in the longest common subsequence.
  function differences(first, second) {
    const [x, y] = [pieces(first), pieces(second)];
    if (x.length * y.length > 400000) return [[[first, false]], [[second, false]]];
    const common = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    const [piecesA, piecesB] = [[], []];
    let [i, j] = [0, 0];
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        piecesA.push([x[i++], false]);
        piecesB.push([y[j++], false]);
      } else if (j >= y.length || (i < x.length && common[i + 1][j] >= common[i][j + 1])) piecesA.push([x[i++], true]);
      else piecesB.push([y[j++], true]);
    }
    return [piecesA, piecesB];
  }

  function marked(parts) {
    const line = make("p");
    let open = null;
    for (const [text, differs] of parts) {
      if (!differs) line.append(text);
      else if (open && line.lastChild === open) open.append(text);
      else line.append(open = make("mark", text));
    }
    if (!line.textContent) line.append(make("mark", "(empty)"));
    return line;
  }

  function side(segment, row, other, parts, kind) {
    const box = make("div", undefined, `side ${kind}`);
    box.append(make("h3", labels[row]), marked(parts));
    const numbers = data.judges.map((judge, place) => `${judge.name} ${segment.scores[place][row]}`);
    const lost = regret(segment, other, row);
    if (lost !== null) numbers.push(`regret of the other choice ${percent(lost)}`);
    box.append(make("p", numbers.join(" · "), "numbers"));
    return box;
  }

  function card(segment, rowA, rowB) {
    const box = make("article", undefined, "card");
    const source = make("p", undefined, "source");
    source.append(make("b", `segment ${segment.id}, ${segment.size} candidates `), segment.source);
    const [first, second] = differences(segment.texts[segment.choices[rowA]], segment.texts[segment.choices[rowB]]);
    const pair = make("div", undefined, "pair");
    pair.append(side(segment, rowA, rowB, first, "a"), side(segment, rowB, rowA, second, "b"));
    box.append(source, pair);
    for (const reference of segment.references) {
      const line = make("p", undefined, "reference");
      line.append(make("b", "reference "), reference);
      box.append(line);
    }
    return box;
  }

  function disagreements() {
    const [rowA, rowB, least] = [Number(a.value), Number(b.value), Number(margin.value) / 100];
    const words = search.value.toLocaleLowerCase();
    find("margin-value").textContent = `${margin.value} %`;
    const matching = data.segments.filter((segment) => {
      if (segment.choices[rowA] === segment.choices[rowB]) return false;
      if (least > 0 && !(marginOf(segment, rowA, rowB) >= least)) return false;
      const texts = [segment.source, segment.texts[segment.choices[rowA]], segment.texts[segment.choices[rowB]]];
      return !words || texts.some((text) => text.toLocaleLowerCase().includes(words));
    });
    const judge = Number(order.value);
    if (order.value === "margin") matching.sort((x, y) => (marginOf(y, rowA, rowB) ?? -1) - (marginOf(x, rowA, rowB) ?? -1));
    else if (judge >= 0) {
      const sign = data.judges[judge].lower ? 1 : -1;
      const gain = (segment) => sign * (segment.scores[judge][rowA] - segment.scores[judge][rowB]);
      matching.sort((x, y) => gain(x) - gain(y));
    }
    const total = data.segments.filter((segment) => segment.choices[rowA] !== segment.choices[rowB]).length;
    find("matches").textContent = rowA === rowB ? "A and B are the same row." :
      `${matching.length} of ${total} segments with different choices (of ${data.segments.length}` +
      `${data.left ? ` on this page, ${data.left} are not on it` : ""}).`;
    find("cards").replaceChildren(...matching.slice(0, shown).map((segment) => card(segment, rowA, rowB)));
    find("more").hidden = matching.length <= shown;
    signatures(rowA, rowB);
  }

  function signatures(rowA, rowB) {
    const [x, y] = [data.rows[rowA].signature, data.rows[rowB].signature];
    const keys = [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((key) => x[key] !== y[key]);
    const head = make("tr");
    head.append(make("th", "setting"), make("th", labels[rowA]), make("th", labels[rowB]));
    const rows = keys.map((key) => {
      const row = make("tr");
      row.append(make("td", key), make("td", x[key] ?? "–"), make("td", y[key] ?? "–"));
      return row;
    });
    find("differences").querySelector("table").replaceChildren(head, ...rows);
  }

  const places = labels.map((label, place) => [String(place), label]);
  const [first, second] = openingPair();
  fill(a, places, String(first));
  fill(b, places, String(second));
  fill(order, [
    ["margin", "largest margin"],
    ["-1", "input order"],
    ...data.judges.map((judge, place) => [String(place), `A better by ${judge.name}`]),
  ], "margin");
  for (const control of [a, b, margin, search, order])
    control.addEventListener("input", () => { shown = PAGE; disagreements(); });
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  find("more").addEventListener("click", () => { shown += PAGE; disagreements(); });
  disagreements();

  // Matrices.
  if (!data.studies.length) return;
  const [study, portrait] = [find("study"), find("portrait")];
  let matrix = null;

  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.numbers), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 2 }, (_, k) => packed.middle + packed.scale * view.getInt16(2 * k, true));
  }

  function colour(share, dark) {
    const strong = Math.min(Math.abs(share), 1);
    const [from, to] = dark ? [[20, 25, 31], share > 0 ? [86, 180, 233] : [255, 140, 60]]
      : [[255, 255, 255], share > 0 ? [0, 90, 160] : [196, 78, 0]];
    return from.map((value, k) => Math.round(value + (to[k] - value) * strong));
  }

  function draw(canvas, values, middle, spread) {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const size = matrix.size;
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    values.forEach((value, place) => image.data.set([...colour((value - middle) / spread, dark), 255], 4 * place));
    context.putImageData(image, 0, 0);
  }

  function drawMaps() {
    const off = [...matrix.utility].filter((_, place) => Math.floor(place / matrix.size) !== place % matrix.size);
    const middle = matrix.antisymmetric ? 0 : off.reduce((sum, value) => sum + value, 0) / Math.max(off.length, 1);
    const spread = Math.max(...off.map((value) => Math.abs(value - middle)), 1e-9);
    const widest = matrix.antisymmetric ? spread : Math.max(...matrix.asymmetry.map(Math.abs), 1e-9);
    draw(find("utility-map"), matrix.utility, middle, spread);
    draw(find("asymmetry-map"), matrix.asymmetry, 0, widest);
    document.querySelector("#matrix .scale").textContent =
      `from ${(middle - spread).toPrecision(3)} (orange) to ${(middle + spread).toPrecision(3)} (blue)`;
    find("asymmetry-words").textContent = matrix.antisymmetric
      ? `u(i, j) + u(j, i), on the same scale; 0 where antisymmetric; half of it on average ${matrix.of.asymmetry}`
      : `u(i, j) - u(j, i), up to ${widest.toPrecision(3)}; 0 where symmetric`;
  }

  function show() {
    const chosen = data.studies[Number(study.value)];
    const of = chosen.segments[Number(portrait.value)];
    const size = of.texts.length;
    const utility = unpack(of.values);
    const antisymmetric = chosen.relation === "antisymmetric";
    const asymmetry = utility.map((value, place) => {
      const other = utility[(place % size) * size + Math.floor(place / size)];
      return antisymmetric ? value + other : value - other;
    });
    matrix = { of, size, utility, asymmetry, antisymmetric, at: [0, Math.min(1, size - 1)] };
    find("portrait-source").textContent = of.source + (of.all > size ? ` (the best ${size} of ${of.all} candidates)` : "");
    find("utility-map").setAttribute("aria-label", `utilities of ${size} candidates, sorted by score`);
    find("asymmetry-map").setAttribute("aria-label", "deviation from antisymmetry or symmetry of each pair");
    drawMaps();
    candidates();
    find("cell").textContent = "";
  }

  function candidates() {
    const head = make("tr");
    const terms = Object.entries(matrix.of.terms);
    for (const word of ["rank", "score", ...terms.map(([name]) => name), "candidate", "chosen by"]) head.append(make("th", word));
    const rows = matrix.of.texts.slice(0, 12).map((text, place) => {
      const row = make("tr");
      const by = Object.entries(matrix.of.chosen).filter(([, choice]) => choice === place).map(([label]) => label);
      const numbers = [place + 1, matrix.of.scores[place], ...terms.map(([, values]) => values[place])];
      row.append(...numbers.map((number) => make("td", String(number))), make("td", text), make("td", by.join(", ")));
      return row;
    });
    find("candidates").replaceChildren(head, ...rows);
  }

  function describe(i, j) {
    matrix.at = [i, j];
    const { of, size, utility } = matrix;
    const value = (x, y) => utility[x * size + y].toPrecision(4);
    find("cell").textContent = `u(${i + 1}, ${j + 1}) = ${value(i, j)}, u(${j + 1}, ${i + 1}) = ${value(j, i)}\n` +
      `${i + 1}: ${of.texts[i]}\n${j + 1}: ${of.texts[j]}`;
  }

  for (const id of ["utility-map", "asymmetry-map"]) {
    const canvas = find(id);
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      const clip = (share) => Math.max(0, Math.min(matrix.size - 1, Math.floor(share * matrix.size)));
      describe(clip((event.clientY - box.top) / box.height), clip((event.clientX - box.left) / box.width));
    };
    canvas.addEventListener("mousemove", point);
    canvas.addEventListener("click", point);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = matrix.at.map((place, k) => Math.max(0, Math.min(matrix.size - 1, place + step[k])));
      describe(...next);
    });
  }

  function portraits() {
    const of = data.studies[Number(study.value)].segments;
    const short = (text) => text.length > 60 ? `${text.slice(0, 59)}…` : text;
    fill(portrait, of.map((segment, place) => [String(place), `${segment.id}: ${short(segment.source)}`]), "0");
    show();
  }

  fill(study, data.studies.map((entry, place) => [String(place), entry.title]), "0");
  study.addEventListener("input", portraits);
  portrait.addEventListener("input", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMaps);
  portraits();
})();
