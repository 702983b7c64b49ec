// A long film on a line: each sentence is a span whose borders are moved by pointer or keys.

const LEAST_S = 0.1; // of a clip
const NEW_S = 3; // of a clip that is added
const PIXELS = 40; // a second, at least
const STEPS = { ArrowLeft: -0.1, ArrowRight: 0.1, PageDown: -1, PageUp: 1 };

/**
 * Draw the timeline of a film; every change is kept at once.
 * @param place Where.
 * @param take Its `parts` are changed.
 * @param video Returns the film's element, which the player may draw anew.
 * @param look Returns what was found in the film, with the player drawn anew.
 * @param tools `ask`, `say`, `tell`, `element`, `guarded` of the page.
 */
export function drawTimeline(place, take, video, look, { ask, say, tell, element, guarded }) {
  const track = element("div", { class: "track" });
  const needle = element("div", { class: "needle" });
  const list = element("ol", { class: "takes" });
  let seconds = Math.max(1, ...take.parts.map((part) => part.end_s));
  let stopAt = Infinity;
  let saving = Promise.resolve();

  const share = (time) => `${(100 * time) / seconds}%`;
  const now = () => video().currentTime;
  const seek = (time) => { stopAt = Infinity; video().currentTime = time; };
  const timeAt = (event) => {
    const box = track.getBoundingClientRect();
    return (seconds * (event.clientX - box.left)) / box.width;
  };

  function keep() {
    saving = saving.then(guarded(() => ask("PATCH", `/api/takes/${take.id}`, { parts: take.parts })));
    return saving;
  }

  function button(name, handler) {
    const node = element("button", { text: say(name) });
    node.addEventListener("click", guarded(handler));
    return node;
  }

  function grip(part, edge, number, lay) {
    const node = element("div", { class: `grip ${edge}`, role: "slider", tabindex: "0",
      "aria-label": say(edge, { number }), "aria-valuemin": "0" });
    const move = (time) => {
      const [low, high] = edge === "start_s" ? [0, part.end_s - LEAST_S] : [part.start_s + LEAST_S, seconds];
      part[edge] = Math.round(1000 * Math.min(Math.max(time, low), high)) / 1000;
      seek(part[edge]);
      lay();
    };
    let held_s = 0; // from the pointer to the border
    node.addEventListener("pointerdown", (event) => {
      held_s = part[edge] - timeAt(event);
      node.setPointerCapture(event.pointerId);
    });
    node.addEventListener("pointermove", (event) => {
      if (node.hasPointerCapture(event.pointerId)) move(timeAt(event) + held_s);
    });
    node.addEventListener("lostpointercapture", keep);
    node.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      move(part[edge] + STEPS[event.key]);
      keep();
    });
    return node;
  }

  function drawPart(part, number) {
    const lay = () => {
      span.style.left = share(part.start_s);
      span.style.width = share(part.end_s - part.start_s);
      times.textContent = `${number}. ${part.start_s.toFixed(1)} – ${part.end_s.toFixed(1)} s`;
      for (const [index, edge] of ["start_s", "end_s"].entries()) {
        grips[index].setAttribute("aria-valuemax", seconds);
        grips[index].setAttribute("aria-valuenow", part[edge]);
        grips[index].setAttribute("aria-valuetext", `${part[edge].toFixed(1)} s`);
      }
    };
    const grips = ["start_s", "end_s"].map((edge) => grip(part, edge, number, lay));
    const span = element("div", { class: "part" }, ...grips, element("span", { text: number }));
    const times = element("span", { class: "soft" });
    const text = element("input", { value: part.text, "aria-label": `${say("sentence")} ${number}`, maxlength: "1000" });
    text.addEventListener("change", () => { part.text = text.value; keep(); });
    const play = button("play", async () => {
      seek(part.start_s);
      stopAt = part.end_s;
      span.scrollIntoView({ block: "nearest", inline: "center" });
      await video().play();
    });
    const remove = button("remove", () => {
      take.parts.splice(take.parts.indexOf(part), 1);
      draw();
      return keep();
    });
    lay();
    track.append(span);
    list.append(element("li", {}, element("div", { class: "row" }, times, play, remove), text));
  }

  function draw() {
    take.parts.sort((one, other) => one.start_s - other.start_s);
    track.style.width = `max(100%, ${Math.round(PIXELS * seconds)}px)`;
    track.replaceChildren(needle);
    list.replaceChildren();
    take.parts.forEach((part, index) => drawPart(part, index + 1));
  }

  function insert(...parts) {
    take.parts.push(...parts);
    draw();
    return keep();
  }

  const suggest = button("suggest", async () => {
    const { spans, seconds: measured } = await look();
    seconds = Math.max(seconds, measured);
    const isFree = ([start, end]) => take.parts.every((part) => end <= part.start_s || start >= part.end_s);
    const found = spans.filter(isFree).map(([start_s, end_s]) => ({ start_s, end_s, text: "" }));
    if (!found.length) throw new Error(say("no_span"));
    await insert(...found);
  });
  const add = button("add", () => {
    const start_s = now();
    const next = take.parts.filter((part) => part.end_s > start_s).map((part) => part.start_s);
    const end_s = Math.min(start_s + NEW_S, seconds, ...next);
    if (end_s - start_s < LEAST_S) throw new Error(say("no_room"));
    return insert({ start_s, end_s, text: "" });
  });
  const split = button("split", () => {
    const at = now();
    const part = take.parts.find((one) => at - one.start_s >= LEAST_S && one.end_s - at >= LEAST_S);
    if (!part) throw new Error(say("no_part"));
    const rest = { ...part, start_s: at, text: "", gloss: "" };
    part.end_s = at;
    return insert(rest);
  });

  // Follows the film; a camera's own film says how long it is only once its end was looked for.
  let isSought = false;
  function follow() {
    if (!track.isConnected) return;
    const { duration, currentTime } = video();
    if (duration === Infinity && !isSought) {
      isSought = true;
      seek(1e7);
    } else if (Number.isFinite(duration) && duration !== seconds) {
      seconds = duration;
      if (isSought) seek(0);
      draw();
    }
    if (currentTime >= stopAt) { video().pause(); stopAt = Infinity; }
    needle.style.left = share(Math.min(currentTime, seconds));
    requestAnimationFrame(follow);
  }

  track.addEventListener("click", (event) => { if (event.target === track) seek(timeAt(event)); });
  place.replaceChildren(
    element("p", { class: "soft", text: say("cut_how") }),
    element("div", { class: "timeline", dir: "ltr" }, track),
    element("div", { class: "row" }, suggest, add, split), list);
  draw();
  tell("");
  requestAnimationFrame(follow);
}
