// The first corpus, learning now, and what the last night did.

const SPLITS = ["train", "dev", "test"];
const POLL_MS = 2000;

export function makeNights({ $, ask, element, guarded, inWords, say, tell, drawList, tellAgain }) {
  const list = (lines, attributes = {}) => element("ul", attributes, ...lines.map((text) => element("li", { text })));
  const row = (kind, cells) => element("tr", {}, ...cells.map((cell) =>
    cell instanceof Node ? element(kind, {}, cell) : element(kind, { text: cell })));

  // What was delivered, who it is from, what each is for, and what is missing for a fair test.
  function drawFounding(found) {
    const place = $("#founding");
    place.hidden = !found;
    if (!found) return;
    const chosen = new Map();
    const splits = () => Object.fromEntries([...chosen].map(([signer, { value }]) => [signer, value]));
    const rows = found.people.map(({ signer, clips, sentences, split }) => {
      const choice = element("select", { "aria-label": `${say("split")}: ${signer}` },
        ...SPLITS.map((name) => element("option", { value: name, text: say(`split_${name}`) })));
      choice.value = split;
      choice.disabled = !split;
      choice.addEventListener("change", guarded(async () =>
        drawFounding(await ask("POST", "/api/propose", { splits: splits() }))));
      chosen.set(signer, choice);
      return row("td", [signer, clips, sentences, choice]);
    });
    const heads = ["signer", "clips", "sentences", "split"].map((name) => say(name));
    const lacks = found.lacks.map((one) => say(`lack_${one.kind}`, one));
    const isPossible = found.lacks.every(({ kind }) => !["people", "uses"].includes(kind));
    const button = element("button", { class: "main", id: "found", text: say("found") });
    button.disabled = !isPossible;
    button.addEventListener("click", guarded(async () => {
      button.disabled = true;
      tell(say("founding"));
      try {
        await ask("POST", "/api/found", { splits: splits() });
      } finally {
        button.disabled = false;
      }
      await show();
      tell(say("founded"));
    }));
    const people = found.people.length;
    place.replaceChildren(
      element("h3", { text: say("found_title") }),
      element("p", { text: say("found_why") }),
      ...(people ? [element("table", {}, row("th", heads), ...rows),
        element("p", { text: say("expect", { people, clips: found.clips, sentences: found.sentences }) }),
        element("p", { class: "soft", text: say("expect_more") })] : []),
      ...drawList("lacks", lacks), ...drawList("left_out", found.left.map(inWords)),
      ...(found.reasons.length ? [element("details", {}, element("summary", { text: say("recipe") }),
        list(found.reasons.map(inWords)))] : []),
      element("div", { class: "row" }, button));
  }

  // What the rules of the gate found; decision.json has their figures, and those of older rules.
  const drawRules = (rules) => list(rules
    .map(({ name, result }) => say(result === "not judged" ? "v_open" : `v_${name}_${result}`))
    .filter((text) => !text.startsWith("v_")));

  let timer = 0;

  function drawLearning(state) {
    clearTimeout(timer);
    const { running, step, number, steps, percent, log, failure } = state;
    $("#learn").hidden = running || isRefused;
    $("#cancel").hidden = !running;
    const parts = [];
    if (running) {
      parts.push(step ? say("step", { number, steps, name: say(`s_${step}`) }) : say("starting"));
      if (percent !== null) parts.push(`${percent} %`);
      timer = setTimeout(guarded(follow), POLL_MS);
    } else if (failure) {
      parts.push(say("night_failed", { why: inWords(failure) }));
    }
    $("#going").textContent = parts.join(" · ");
    $("#bar").hidden = !running;
    $("#bar").max = steps;
    $("#bar").value = Math.max(0, number - 1) + (percent ?? 0) / 100;
    $("#log").parentElement.hidden = !log;
    $("#log").textContent = log;
  }

  let wasRunning = false;
  let isRefused = false;

  async function follow() {
    if ($("#nights").hidden) return;
    clearTimeout(timer);
    if (wasRunning) timer = setTimeout(guarded(follow), POLL_MS); // also where this answer fails
    const state = await ask("GET", "/api/learn");
    drawLearning(state);
    if (wasRunning && !state.running) await drawNight();
    wasRunning = state.running;
  }

  async function drawNight() {
    const found = await ask("GET", "/api/nights");
    drawFounding(found.founding);
    $("#learning").hidden = Boolean(found.founding);
    isRefused = Boolean(found.refused);
    const why = isRefused ? `${say("cannot_learn")} ${inWords(found.refused)}` : say("learn_why");
    $("#learn-why").textContent = why;
    const lines = [element("p", { text: `${say("champion")}: ${found.champion ?? say("no_champion")}` })];
    if (found.night) {
      const { started, verdict, outcome, messages, rules } = found.night;
      lines.push(element("h3", { text: say("last_night") }),
        element("p", { text: `${started}: ${inWords(verdict || outcome)}` }), list(messages.map(inWords)));
      lines.push(drawRules(rules));
    } else {
      lines.push(element("p", { text: say("no_night") }));
    }
    lines.push(...drawList("left_out", found.again.map(tellAgain)),
      ...drawList("history", found.history.map((one) => Object.values(one).filter(Boolean).join(" · "))));
    lines.push(element("p", { class: "soft", text: say("disk", { free: found.free_gb }) }));
    $("#night").replaceChildren(...lines);
    $("#report").hidden = !found.report;
    $("#rollback").hidden = !found.champion;
  }

  async function show() {
    await drawNight();
    await follow();
  }

  const press = (selector, handler) => $(selector).addEventListener("click", guarded(handler));

  press("#learn", async () => {
    $("#learn").disabled = true;
    $("#going").textContent = say("starting");
    try {
      await ask("POST", "/api/learn", {});
    } finally {
      $("#learn").disabled = false;
    }
    wasRunning = true; // it may end before the page looks
    await follow();
  });

  press("#cancel", async () => {
    if (!confirm(say("cancel_sure"))) return;
    await ask("DELETE", "/api/learn");
    tell(say("cancelling"));
  });

  press("#rollback", async () => {
    if (!confirm(say("rollback_sure"))) return;
    const { champion } = await ask("POST", "/api/rollback", {});
    await drawNight();
    tell(say("rolled_back", { version: champion }));
  });

  return show;
}
