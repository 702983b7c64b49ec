// The tab Judge: a clip, two sentences of which nobody here knows whose they are, and what a person
// says of them.

const PLACES = ["first", "second"];
const CHOICES = ["first", "equal", "second"];

export function makeJudge({ $, ask, element, guarded, say, showClip }) {
  let task = "";
  let judge = ""; // as it was when the clips came: the order of the sentences is that judge's
  let clips = [];
  let at = 0;

  const isDone = () => clips.every((one) => one.answer);

  function next() {
    const open = (one) => !one.answer;
    const later = clips.findIndex((one, number) => number > at && open(one));
    at = later >= 0 ? later : Math.max(clips.findIndex(open), 0);
  }

  function drawSentence(clip, number) {
    const place = PLACES[number];
    const score = element("input", {
      type: "number", name: place, min: 0, max: 100, step: 1, required: "", inputmode: "numeric",
      value: clip.answer?.scores[number] ?? "",
      "aria-label": `${say(`judge_${place}`)}: ${say("judge_score")}`,
    });
    const text = clip.sentences[number];
    return element("div", { class: "sentence" },
      element("h3", { text: say(`judge_${place}`) }),
      element("p", { class: "said", dir: "auto", text: text || say("nothing_written") }),
      element("label", {}, element("span", { text: say("judge_score") }), score));
  }

  function drawChoice(clip, name) {
    const input = element("input", { type: "radio", name: "preferred", value: name, required: "" });
    input.checked = clip.answer?.preferred === name;
    return element("label", { class: "check" }, input, element("span", { text: say(`better_${name}`) }));
  }

  async function draw() {
    const clip = clips[at];
    const film = element("div");
    const back = element("button", { type: "button", text: say("judge_back") });
    back.disabled = at === 0;
    back.addEventListener("click", guarded(() => { at -= 1; return draw(); }));
    const form = element("form", {},
      element("div", { class: "fields" }, ...PLACES.map((_, number) => drawSentence(clip, number))),
      element("fieldset", {}, element("legend", { text: say("judge_question") }),
        ...CHOICES.map((name) => drawChoice(clip, name))),
      element("div", { class: "row" }, element("button", { class: "main", text: say("judge_save") }), back));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      guarded(() => answer(clip, new FormData(form)))();
    });
    const done = clips.filter((one) => one.answer).length;
    const progress = say("judge_progress", { number: at + 1, all: clips.length, done });
    const heading = element("p", { tabindex: -1, text: progress });
    $("#judging").replaceChildren(heading, film, form);
    heading.focus();
    await showClip(film, clip);
  }

  async function answer(clip, given) {
    const scores = PLACES.map((place) => Number(given.get(place)));
    const preferred = given.get("preferred");
    await ask("POST", `/api/judge/${encodeURIComponent(task)}`,
      { judge, clip_id: clip.clip_id, preferred, scores });
    const wasDone = isDone();
    clip.answer = { preferred, scores };
    if (isDone() && !wasDone) {
      const thanks = element("p", { tabindex: -1, text: say("judge_done") });
      $("#judging").replaceChildren(thanks);
      thanks.focus();
      return;
    }
    if (wasDone) at = Math.min(at + 1, clips.length - 1);
    else next();
    await draw();
  }

  async function begin() {
    task = $("#judge-task").value;
    judge = $("#judge-name").value;
    const asked = `${encodeURIComponent(task)}?judge=${encodeURIComponent(judge)}`;
    ({ clips } = await ask("GET", `/api/judge/${asked}`));
    at = -1;
    next();
    await draw();
  }

  $("#judge-begin").addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(begin)();
  });

  return async function showTab() {
    const { tasks } = await ask("GET", "/api/judge");
    $("#judge-none").hidden = tasks.length > 0;
    $("#judge-begin").hidden = tasks.length === 0;
    const chosen = $("#judge-task").value;
    $("#judge-task").replaceChildren(...tasks.map((name) => element("option", { text: name })));
    if (tasks.includes(chosen)) $("#judge-task").value = chosen;
    if ($("#judging form")) await draw(); // in another language
  };
}
