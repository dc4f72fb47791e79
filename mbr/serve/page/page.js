"use strict";
// Asks the service and shows its answer. Texts enter by textContent only, so none is ever markup.
(() => {
  const find = (id) => document.getElementById(id);
  let matrix = null; // of the shown answer, in the order of the ranking
  let at = [0, 0];

  function make(name, words, kind) {
    const element = document.createElement(name);
    if (words !== undefined) element.textContent = words;
    if (kind) element.className = kind;
    return element;
  }

  const number = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toString());

  // Dark or light.
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  find("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    drawMap();
  });

  // The service: what it serves, and requests to it.
  const headers = () => {
    const key = find("key").value;
    return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  };

  // Loading takes a while: the page asks until the service is ready, so that it need not be opened again.
  const POLL_MILLISECONDS = 1000;
  let polling = 0;

  async function info() {
    clearTimeout(polling);
    const about = await aboutService();
    if (about === "no key") {
      find("key-field").hidden = false;
      return;
    }
    const ready = about !== null && about.state === "ready";
    find("go").disabled = !ready;
    find("status").textContent = ready ? "" : "The service is starting: its models are being loaded …";
    if (ready) offer(about);
    else polling = setTimeout(info, POLL_MILLISECONDS);
  }

  async function aboutService() {
    try {
      const answer = await fetch("info", { headers: headers() });
      if (answer.status === 401) return "no key";
      return answer.ok ? await answer.json() : null;
    } catch {
      return null; // it does not answer now
    }
  }

  function offer(about) {
    const options = Object.keys(about.recipes).map((name) => {
      const option = make("option", name);
      option.value = name;
      return option;
    });
    find("recipe").replaceChildren(find("recipe").options[0], ...options);
    find("nbest").max = about.limits.max_candidates;
    find("nbest").value = about.limits.nbest;
    if (!about.translator) {
      find("made").disabled = true;
      find("pasted").checked = true;
      showFields();
    }
  }

  function showFields() {
    find("pasted-field").hidden = !find("pasted").checked;
    find("nbest-field").hidden = find("pasted").checked;
  }
  for (const id of ["made", "pasted"]) find(id).addEventListener("change", showFields);

  function request() {
    const recipe = find("recipe").value;
    const shared = { ...(recipe ? { recipe } : {}), top: 256, return_matrix: true };
    const source = find("source").value.trim();
    if (find("made").checked) return ["v1/translate", { text: source, nbest: Number(find("nbest").value), ...shared }];
    const candidates = find("candidates").value.split("\n").filter((line) => line.trim());
    return ["v1/decode", { source, candidates, ...shared }];
  }

  function curl(path, body) {
    const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
    const key = find("key").value ? ` -H "Authorization: Bearer $KEY"` : "";
    return `curl${key} -d '${quoted}' ${new URL(path, document.baseURI)}`;
  }

  async function choose(event) {
    event.preventDefault();
    const [path, body] = request();
    find("go").disabled = true;
    find("problem").hidden = true;
    find("status").textContent = "working …";
    const began = performance.now();
    try {
      const answer = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) });
      const content = await answer.json();
      if (answer.status === 401) find("key-field").hidden = false;
      if (!answer.ok) throw new Error(content.error);
      show(content, answer.headers);
      find("status").textContent = `done in ${((performance.now() - began) / 1000).toFixed(2)} s`;
    } catch (error) {
      find("status").textContent = "";
      find("problem").textContent = error.message;
      find("problem").hidden = false;
    }
    find("curl").textContent = curl(path, body);
    find("go").disabled = false;
  }

  // Words that differ; signs of scripts without spaces are pieces of their own.
  const SIGNS = "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}";
  const PIECES = new RegExp(`\\s+|[${SIGNS}]\\p{M}*|(?:(?![${SIGNS}])[\\p{L}\\p{N}\\p{M}'’-])+|[^\\s\\p{L}\\p{N}\\p{M}]`, "gu");

  // A text against another, as nodes: what is not in the longest common subsequence is marked.
  function marked(text, other) {
    const [x, y] = [text.match(PIECES) || [], other.match(PIECES) || []];
    if (!text) return [make("mark", "(empty)")];
    if (x.length * y.length > 400000) return [document.createTextNode(text)];
    const common = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    const nodes = [];
    let [i, j] = [0, 0];
    while (i < x.length) {
      if (j < y.length && x[i] === y[j]) {
        nodes.push(document.createTextNode(x[i++]));
        j++;
      } else if (j >= y.length || common[i + 1][j] >= common[i][j + 1]) {
        const last = nodes[nodes.length - 1];
        if (last && last.nodeName === "MARK") last.append(x[i++]);
        else nodes.push(make("mark", x[i++]));
      } else j++;
    }
    return nodes;
  }

  function show(answer, times) {
    find("result").hidden = false;
    const second = answer.ranking[1];
    find("choice").replaceChildren(...(second ? marked(answer.text, second.text) : [document.createTextNode(answer.text)]));
    find("runner-up").hidden = !second;
    if (second) find("second").replaceChildren(...marked(second.text, answer.text));
    facts(answer, times);
    ranking(answer);
    readMatrix(answer);
    drawMap();
  }

  function facts(answer, times) {
    const regret = answer.estimated_regret;
    const rows = [
      ["estimated regret", regret === null ? "not known" : `${number(100 * regret)} %`],
      ["passes", `${answer.usage.passes} of ${answer.usage.unique * (answer.usage.unique - 1)} ordered pairs`],
      ["contenders", number(answer.contenders)],
      ["distinct candidates", answer.usage.unique],
      ["margin", number(answer.margin)],
      ["waited", `${times.get("x-queue-time")} ms`],
      ["decided in", `${times.get("x-inference-time")} ms`],
      ["recipe", answer.recipe],
      ...(answer.flags.length ? [["flags", answer.flags.join(", ")]] : []),
      ...(answer.dropped ? [["dropped by guards", droppedWords(answer)]] : []),
      ...(answer.error ? [["error", answer.error]] : []),
      ["signature", answer.signature],
    ];
    find("facts").replaceChildren(...rows.map(([name, value]) => {
      const row = make("div", undefined, ["signature", "error", "dropped by guards"].includes(name) ? "long" : "");
      row.append(make("dt", name), make("dd", value));
      return row;
    }));
  }

  const droppedWords = (answer) => answer.dropped_candidates
    .map((entry) => `${entry.text || "(empty)"} (${entry.guards.join(", ")})`).join("; ");

  function ranking(answer) {
    const terms = Object.keys(answer.terms);
    const columns = [
      ["score", (entry) => entry.score],
      ...(terms.length ? [["expected utility", (entry) => entry.expected_utility]] : []),
      ...terms.map((name) => [name, (entry) => entry.terms[name]]),
    ];
    const ranges = columns.map(([, value]) => {
      const values = answer.ranking.map(value).filter((one) => one !== null);
      return [Math.min(...values), Math.max(...values)];
    });
    const head = make("tr");
    head.append(...["", "candidate", ...columns.map(([name]) => name)].map((name) => {
      const cell = make("th", name);
      cell.scope = "col";
      return cell;
    }));
    const rows = answer.ranking.map((entry, place) => {
      const row = make("tr", undefined, place ? "" : "chosen");
      row.append(make("td", `${place + 1}`, "place"));
      const text = make("td", undefined, "text");
      text.dir = "auto";
      text.append(...marked(entry.text, answer.text));
      if (entry.count > 1) text.append(make("span", ` × ${entry.count}`, "quiet"));
      row.append(text);
      columns.forEach(([name, value], column) => row.append(bar(name, value(entry), ranges[column])));
      return row;
    });
    const [top, body] = [make("thead"), make("tbody")];
    top.append(head);
    body.append(...rows);
    find("ranking").replaceChildren(top, body);
  }

  function bar(name, value, [least, most]) {
    const cell = make("td", number(value), "number");
    cell.dataset.name = name;
    if (value === null) return cell;
    const [outer, inner] = [make("span", undefined, "bar"), make("span")];
    inner.style.width = `${most > least ? (100 * (value - least)) / (most - least) : 100}%`;
    outer.append(inner);
    cell.append(outer);
    return cell;
  }

  // The map of scored pairs.
  function readMatrix(answer) {
    const given = answer.matrix;
    find("matrix-section").hidden = !given || given.texts.length < 2;
    matrix = null;
    if (find("matrix-section").hidden) return;
    const order = answer.ranking.map((entry) => given.texts.indexOf(entry.text)).filter((place) => place >= 0);
    matrix = {
      texts: order.map((place) => given.texts[place]),
      values: order.map((row) => order.map((column) => given.values[row][column])),
      scored: order.map((row) => order.map((column) => given.scored[row][column])),
      signed: given.relation === "antisymmetric",
    };
    at = [0, Math.min(1, order.length - 1)];
    find("cell").textContent = "";
  }

  function colour(share, dark) {
    const strong = Math.min(Math.abs(share), 1);
    const [from, to] = dark ? [[40, 48, 56], share > 0 ? [86, 180, 233] : [255, 140, 60]]
      : [[243, 246, 248], share > 0 ? [0, 90, 160] : [196, 78, 0]];
    return from.map((value, k) => Math.round(value + (to[k] - value) * strong));
  }

  function drawMap() {
    if (!matrix) return;
    const size = matrix.texts.length;
    const known = matrix.values.flatMap((row, i) => row.filter((value, j) => value !== null && i !== j));
    const middle = matrix.signed ? 0 : known.reduce((sum, value) => sum + value, 0) / Math.max(known.length, 1);
    const spread = Math.max(...known.map((value) => Math.abs(value - middle)), 1e-9);
    const canvas = find("map");
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    const dark = isDark();
    matrix.values.forEach((row, i) => row.forEach((value, j) => {
      if (value === null || (i === j && matrix.signed)) return;
      image.data.set([...colour((value - middle) / spread, dark), 255], 4 * (i * size + j));
    }));
    context.putImageData(image, 0, 0);
    find("scale").textContent = `from ${number(middle - spread)} (orange) to ${number(middle + spread)} (blue)`;
  }

  function cell(i, j) {
    if (!matrix) return;
    at = [i, j];
    const value = matrix.values[i][j];
    const how = matrix.scored[i][j] ? "" : value === null ? ", not scored" : ", by antisymmetry";
    find("cell").textContent = `u(${i + 1}, ${j + 1}) = ${number(value)}${how}\n${i + 1}: ${matrix.texts[i]}\n${j + 1}: ${matrix.texts[j]}`;
  }

  find("map").addEventListener("pointermove", (event) => {
    if (!matrix) return;
    const box = find("map").getBoundingClientRect();
    const place = (offset) => Math.min(Math.max(Math.floor((offset / box.width) * matrix.texts.length), 0), matrix.texts.length - 1);
    cell(place(event.clientY - box.top), place(event.clientX - box.left));
  });
  find("map").addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !matrix) return;
    event.preventDefault();
    const inside = (place) => Math.min(Math.max(place, 0), matrix.texts.length - 1);
    cell(inside(at[0] + step[0]), inside(at[1] + step[1]));
  });

  find("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(find("curl").textContent);
    find("copy").textContent = "copied";
  });
  find("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("form").requestSubmit();
  });
  find("key").addEventListener("change", info);
  find("form").addEventListener("submit", choose);
  info();
})();
