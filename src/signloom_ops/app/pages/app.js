// The app's page: camera, recordings that are sent while they are made, translations, nights.
// Texts of people only ever become textContent.

import { drawBones, makeClips } from "/clips.js";
import { makeJudge } from "/judge.js";
import { inWords } from "/server_messages.js";
import { makeNights } from "/nights.js";
import { drawTimeline } from "/timeline.js";

const $ = (selector, root = document) => root.querySelector(selector);
const texts = await (await fetch("/texts.json")).json();
let words = texts.en;
let start = { prompts: [], videos: [] };

// --- small helpers ---------------------------------------------------------------------------

function say(name, values = {}) {
  const text = words[name] ?? texts.en[name] ?? name;
  return text.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

function element(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  node.append(...children);
  return node;
}

function tell(text, isWrong = false) {
  $("#message").textContent = text;
  $("#message").classList.toggle("wrong", isWrong);
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function ask(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: method === "GET" ? {} : { "x-signloom": "1" },
    body: body instanceof Blob || body === undefined ? body : JSON.stringify(body),
  }).catch(() => { throw new Error(say("away")); });
  const content = await answer.json().catch(() => ({}));
  if (answer.ok) return content;
  const why = content.error ? inWords(content.error) : say("broken");
  throw Object.assign(new Error(why), { status: answer.status, content });
}

// Run a handler; what goes wrong is said, never swallowed.
function guarded(handler) {
  return async (...given) => {
    try {
      tell("");
      await handler(...given);
    } catch (error) {
      tell(error.message, true);
    }
  };
}

function on(selector, event, handler) {
  $(selector).addEventListener(event, guarded(handler));
}

// --- language ----------------------------------------------------------------------------------

function speak(language) {
  words = texts[language] ?? texts.en;
  document.documentElement.lang = language;
  document.documentElement.dir = words._direction;
  localStorage.setItem("language", language);
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = say(node.dataset.t);
  for (const node of document.querySelectorAll("[data-l]")) node.ariaLabel = say(node.dataset.l);
  $("#language").value = language;
}

for (const [code, { _name }] of Object.entries(texts)) {
  $("#language").append(element("option", { value: code, text: _name }));
}
$("#language").addEventListener("change", (event) => { speak(event.target.value); show(); });

// --- sending a film in pieces --------------------------------------------------------------------

// Answers after which the same request may succeed: the app was started again and waits for its new
// cookie, too many asked at a time, the disk is full. The page keeps the film and tries again.
const FOR_NOW = [401, 429, 503, 507];

// Sends pieces as they come and tries again until the server has them: it says how much it has.
class Sender {
  constructor(id, sent = 0) {
    this.id = id;
    this.pieces = []; // [offset, blob], in order
    this.size = sent;
    this.sending = null;
  }

  add(blob) {
    for (let from = 0; from < blob.size; from += start.piece) {
      const part = blob.slice(from, from + start.piece);
      this.pieces.push([this.size, part]);
      this.size += part.size;
    }
    this.sending ??= this.send().finally(() => { this.sending = null; });
  }

  async send() {
    while (this.pieces.length) {
      const [offset, blob] = this.pieces[0];
      try {
        const path = `/api/takes/${this.id}/film?offset=${offset}`;
        await ask("PUT", path, blob);
        this.pieces.shift();
      } catch (error) {
        if (error.status && !FOR_NOW.includes(error.status)) throw error;
        tell(error.status ? error.message : say("waiting"), true);
        await pause(1500);
      }
    }
  }

  async finish() {
    while (this.sending) await this.sending;
    for (;;) {
      try {
        return await ask("POST", `/api/takes/${this.id}/whole`, { size: this.size });
      } catch (error) {
        if (error.status && !FOR_NOW.includes(error.status)) throw error;
        tell(error.status ? error.message : say("waiting"), true);
        await pause(1500);
      }
    }
  }
}

// --- camera ----------------------------------------------------------------------------------------

const FORMATS = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm", "video/mp4"];
let stream = null;
let recorder = null;
let sender = null;

async function openCamera() {
  if (stream?.active) return; // it may have been unplugged
  try {
    stream = await navigator.mediaDevices.getUserMedia({
      video: { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 30 } },
      audio: false,
    });
  } catch (error) {
    const why = texts.en[`cam_${error.name}`] ? say(`cam_${error.name}`) : error.message;
    throw new Error(say("no_camera", { why }));
  }
  stream.getTracks()[0].addEventListener("ended", () => tell(say("camera_gone"), true));
  $("#preview").srcObject = stream;
  $(".stage").hidden = false;
  await $("#preview").play();
}

function closeCamera() {
  for (const track of stream?.getTracks() ?? []) track.stop();
  stream = null;
  $(".stage").hidden = true;
}

// Count down, record, and send each second as it is there: a page that dies loses one second.
async function beginRecording(text, signer) {
  await openCamera();
  $("#go").hidden = true;
  for (const number of [3, 2, 1]) {
    $("#count").textContent = number;
    await pause(700);
  }
  $("#count").textContent = "";
  const type = FORMATS.find((one) => MediaRecorder.isTypeSupported(one));
  const suffix = type.startsWith("video/mp4") ? ".mp4" : ".webm";
  const take = await ask("POST", "/api/takes", { text, signer, suffix });
  sender = new Sender(take.id);
  recorder = new MediaRecorder(stream, { mimeType: type, videoBitsPerSecond: 2_500_000 });
  recorder.addEventListener("dataavailable", (event) => sender.add(event.data));
  const own = recorder; // the camera may go away, or this page's tab change: then it stops by itself
  own.over = new Promise((done) => own.addEventListener("stop", done, { once: true }));
  own.start(1000);
  $("#stop").hidden = false;
  $("#stop").focus();
}

async function endRecording() {
  $("#stop").hidden = true;
  if (recorder.state !== "inactive") recorder.stop();
  await recorder.over;
  tell(say("saving"));
  try {
    if (!sender.size) { // stopped before the camera gave a picture
      await ask("DELETE", `/api/takes/${sender.id}`);
      throw new Error(say("too_short"));
    }
    const take = await sender.finish();
    tell(say("looking"));
    return [take, await ask("POST", `/api/takes/${take.id}/look`)];
  } finally {
    tell("");
    $("#go").hidden = false;
  }
}

// --- live --------------------------------------------------------------------------------------------

const LIVE_MS = 1000 / 15;
const MOST_WAITING = 30; // frames; older ones are left out rather than answered ever later
const SLOWEST = 4; // of so many pictures a machine that is too slow gets one

// Sends pictures while somebody signs; the answers say when a sentence has ended, and what it was.
class LiveSession {
  constructor(id) {
    this.id = id;
    this.waiting = [];
    this.left = 0;
    this.every = 1; // evenly fewer pictures spoil a sentence less than a hole in it
    this.number = 0;
    this.canvas = document.createElement("canvas");
    const preview = $("#preview");
    const scale = Math.min(1, 640 / preview.videoWidth);
    this.canvas.width = Math.round(preview.videoWidth * scale);
    this.canvas.height = Math.round(preview.videoHeight * scale);
    this.pen = this.canvas.getContext("2d");
    this.timer = setInterval(() => this.take(), LIVE_MS);
    this.running = true;
    this.send();
  }

  take() {
    if (this.number++ % this.every) { this.left += 1; return; }
    const time = performance.now() / 1000;
    this.pen.drawImage($("#preview"), 0, 0, this.canvas.width, this.canvas.height);
    this.canvas.toBlob((blob) => {
      if (!blob) return; // the camera gives no picture
      this.waiting.push([time, blob]);
      while (this.waiting.length > MOST_WAITING) { this.waiting.shift(); this.left += 1; }
    }, "image/jpeg", 0.85);
  }

  async send() {
    while (this.running) {
      const frames = this.waiting.splice(0, MOST_WAITING);
      if (!frames.length) { await pause(LIVE_MS); continue; }
      frames.sort((one, other) => one[0] - other[0]);
      const parts = frames.flatMap(([time, blob]) => {
        const head = new DataView(new ArrayBuffer(12));
        head.setFloat64(0, time, true);
        head.setUint32(8, blob.size, true);
        return [head.buffer, blob];
      });
      try {
        this.show(await ask("PUT", `/api/live/${this.id}`, new Blob(parts)), frames);
        if (this.waiting.length > MOST_WAITING / 3) this.every = Math.min(this.every + 1, SLOWEST);
        else if (this.waiting.length < 3) this.every = Math.max(this.every - 1, 1);
      } catch (error) {
        tell(error.message, true);
        endLive();
      }
    }
  }

  show({ signing, translation }, frames) {
    const behind = performance.now() / 1000 - frames.at(-1)[0];
    $("#state").textContent = say(signing ? "signing" : "resting", { behind: behind.toFixed(1) });
    $("#state").dataset.left = this.left;
    if (!translation) return;
    const item = element("li");
    drawTranslation(item, translation);
    const wrong = element("button", { text: say("wrong") });
    wrong.addEventListener("click", guarded(async () => {
      const text = translation.familiar === false ? "" : translation.text;
      await ask("POST", `/api/live/${this.id}/keep`, { text, signer: $("#signer").value });
      location.hash = "clips";
    }));
    for (const button of document.querySelectorAll("#said button")) button.remove(); // of the last alone
    item.append(wrong);
    $("#said").prepend(item);
  }

  stop() {
    this.running = false;
    clearInterval(this.timer);
  }
}

let live = null;

function endLive() {
  live?.stop();
  live = null;
  $("#live").ariaPressed = "false";
  $("#live").textContent = say("live");
  $("#state").textContent = "";
}

// --- what was recorded -------------------------------------------------------------------------------

// A player with the skeleton over it, and the words lit at their moments.
function drawLook(place, take, look) {
  const video = element("video", { src: `/api/takes/${take.id}/film`, controls: "", playsinline: "" });
  const canvas = element("canvas", { "aria-hidden": "true" });
  const player = element("div", { class: "player" }, video, canvas);
  const slow = element("button", { text: "½×", "aria-pressed": "false" });
  slow.addEventListener("click", () => {
    video.playbackRate = video.playbackRate === 1 ? 0.5 : 1;
    slow.ariaPressed = String(video.playbackRate !== 1);
  });
  video.addEventListener("error", () => slow.after(element("p", { class: "unsure", text: say("no_play") })));
  place.replaceChildren(player, slow);
  // A camera's first pictures are often black, and so is a film that has not begun.
  const showBegin = () => { if (!video.currentTime) video.currentTime = look?.signed?.[0] || 0.3; };
  video.addEventListener("loadeddata", showBegin, { once: true });
  if (!look) return;
  place.append(drawFaults(look.faults));
  const tokens = drawTranslation(place, look.translation);
  drawLookup(place, take);
  const draw = () => {
    drawSkeleton(canvas, video, look.skeleton);
    drawSign(canvas, (look.translation?.signs ?? []).find((sign) =>
      video.currentTime >= sign.start_s && video.currentTime < sign.end_s));
    for (const [node, token] of tokens) {
      const now = video.currentTime >= token.start_s && video.currentTime < token.end_s;
      node.classList.toggle("now", now);
    }
    if (canvas.isConnected) requestAnimationFrame(draw);
  };
  draw();
}

function drawFaults(names) {
  if (!names.length) return element("p", { text: say("fine") });
  return element("ul", { class: "faults" }, ...names.map((name) => element("li", { text: say(`f_${name}`) })));
}

function drawTranslation(place, found) {
  if (!found) return [];
  if (!found.text) place.append(element("p", { class: "unsure", text: say("silent") }));
  const tokens = (found.tokens ?? []).map((token) => [element("span", { text: token.text }), token]);
  const line = tokens.length
    ? element("p", { class: "said tokens" }, ...tokens.map(([node]) => node))
    : element("p", { class: "said", text: found.text });
  if (found.familiar === false) { // first that it was not understood, the guess on request
    const guess = element("details", { class: "guess" }, element("summary", { text: say("guess") }), line);
    place.append(element("p", { class: "unsure", text: say("unfamiliar") }), guess);
    return tokens;
  }
  place.append(line);
  if (found.unsure) {
    const confidence = found.confidence?.toFixed(2);
    place.append(element("p", { class: "unsure", text: say("unsure", { confidence }) }));
  }
  const others = found.alternatives.map((one) => one.text).filter((text) => text && text !== found.text);
  if (others.length) {
    place.append(element("p", { class: "soft", text: say("others", { texts: others.join(" / ") }) }));
  }
  return tokens;
}

function drawSkeleton(canvas, video, skeleton) {
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width;
  canvas.height = height;
  const frame = skeleton.frames[Math.min(
    Math.floor(video.currentTime * skeleton.fps), skeleton.frames.length - 1)];
  if (!frame || !video.videoWidth) return;
  const scale = Math.min(width / video.videoWidth, height / video.videoHeight);
  const wide = video.videoWidth * scale;
  const high = video.videoHeight * scale;
  const pen = canvas.getContext("2d");
  drawBones(pen, frame, skeleton.bones,
    ([x, y]) => [(width - wide) / 2 + (x * wide) / 1000, (height - high) / 2 + (y * high) / 1000]);
}

// The sign that is read at this moment, and how sure.
function drawSign(canvas, sign) {
  canvas.dataset.sign = sign?.gloss ?? "";
  if (!sign) return;
  const pen = canvas.getContext("2d");
  const text = `${sign.gloss} ${Math.round(100 * sign.posterior)} %`;
  pen.font = "600 16px sans-serif";
  const wide = pen.measureText(text).width;
  pen.fillStyle = "rgb(0 0 0 / 65%)";
  pen.fillRect(6, 6, wide + 12, 24);
  pen.fillStyle = "#ffd84d";
  pen.fillText(text, 12, 24);
}

// --- consent -------------------------------------------------------------------------------------------

// Asked once a signer and day, before the first recording.
const agreed = new Set();

async function consentOf(signer) {
  const day = new Date().toDateString();
  const takes = await ask("GET", "/api/takes");
  if (agreed.has(signer + day) || takes.some((one) => one.signer === signer && one.agreed)) return true;
  const dialog = $("#consent");
  const isOwn = Boolean(start.consent); // the organisation's words, and its film
  $("#consent-words").textContent = start.consent || say("consent_words");
  $("#consent-more").hidden = isOwn;
  $("#consent-film").hidden = !start.consent_film;
  if (start.consent_film) $("#consent-film").src = "/api/consent-film";
  const wording = start.consent || `${say("consent_words")} ${say("consent_details")}`;
  $("#for-training").checked = $("#for-showing").checked = false;
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  if (dialog.returnValue !== "yes") return false;
  const purposes = [];
  if ($("#for-training").checked) purposes.push("training");
  if ($("#for-showing").checked) purposes.push("showing");
  await ask("POST", "/api/consents", { signer, purposes, until: $("#until").value, wording });
  agreed.add(signer + day);
  return true;
}

// --- the tabs ------------------------------------------------------------------------------------------

let prompt = 0;
let current = null; // the take that is shown

function nextPrompt() {
  if (start.prompts.length) $("#sentence").value = start.prompts[prompt++ % start.prompts.length];
}

const tabs = {
  async record() {
    $("#record-camera").append($("#camera"));
    showTake(!$("#taken").hidden);
    $("#next").hidden = !start.prompts.length;
    if (!$("#sentence").value) nextPrompt();
  },

  async clips() {
    const takes = await ask("GET", "/api/takes");
    $("#list").replaceChildren(...takes.map(drawTake));
    if (!takes.length) $("#list").append(element("li", { text: say("none") }));
  },

  async translate() {
    start = await ask("GET", "/api/start"); // a night may have made another champion
    const { model } = start;
    $("#model").textContent = !model ? say(start.in_training ? "in_training" : "no_model") : model.drawn ? say("model_is_drawn")
      : say("model_is", { ...model, name: model.name || say("trained_last") });
    $("#grade").textContent = model && !model.drawn ? drawGrade(model) : "";
    $("#translate-camera").append($("#camera"));
    $("#camera").hidden = $("#live").hidden = !model;
  },

};

// The score in a sentence, for who has never heard of its metric.
function drawGrade({ words: right, low, floor_score: floor, clips }) {
  if (low === undefined) return say("not_scored");
  if (low <= floor) return say("grade_unsure", { clips }); // its share of right words is luck
  const count = right === undefined ? "" : say("grade_words", { right: Math.round(right) });
  return `${say("grade_above", { clips })} ${count}`;
}

const { showClip, drawLookup } = makeClips({ ask, element, guarded, say, tell });
const tellAgain = ({ clip, reason, hint }) => `${clip}: ${inWords(reason)} (${inWords(hint)})`;
tabs.nights = makeNights({ $, ask, element, guarded, inWords, say, tell, drawList, tellAgain });
tabs.judge = makeJudge({ $, ask, element, guarded, say, showClip });

function drawList(title, lines) {
  if (!lines.length) return [];
  return [element("h3", { text: say(title) }), element("ul", {}, ...lines.map((text) => element("li", { text })))];
}

function drawTake(take) {
  const text = element("input", { value: take.text, maxlength: "1000" });
  const signer = element("input", { value: take.signer, maxlength: "100" });
  const labelled = (name, input) => element("label", {}, element("span", { text: say(name) }), input);
  const place = element("div");
  const line = element("div");
  const button = (name, handler) => {
    const node = element("button", { text: say(name) });
    node.addEventListener("click", guarded(handler));
    return node;
  };
  const row = element("div", { class: "row" });
  if (take.state === "recording") {
    row.append(button("keep", async () => {
      await ask("POST", `/api/takes/${take.id}/whole`, { size: take.bytes });
      show();
    }));
  } else {
    const check = async () => {
      drawLook(place, take, null);
      tell(say("looking"));
      const look = await ask("POST", `/api/takes/${take.id}/look`);
      tell("");
      drawLook(place, take, look);
      return look;
    };
    row.append(button("check", async () => {
      const { translation } = await check();
      if (!text.value && translation && translation.familiar !== false) text.value = translation.text;
    }));
    if (take.state === "whole") row.append(button("cut", () => {
      if (!$("video", place)) drawLook(place, take, null);
      drawTimeline(line, take, () => $("video", place), check, { ask, say, tell, element, guarded });
    }));
  }
  if (take.state !== "delivered") {
    row.append(button("save", async () => {
      if (signer.value.trim()) await consentOf(signer.value);
      await ask("PATCH", `/api/takes/${take.id}`, { text: text.value, signer: signer.value });
    }));
  }
  row.append(button("remove", async () => {
    if (!confirm(say(take.state === "delivered" ? "remove_delivered" : "remove_sure"))) return;
    await ask("DELETE", `/api/takes/${take.id}`);
    show();
  }));
  const count = take.parts.length;
  const state = [take.name, take.made.slice(0, 16).replace("T", " "), say(`state_${take.state}`),
    count === 1 ? say("clip_of") : count ? say("clips_of", { count }) : ""].filter(Boolean).join(" · ");
  const fields = [labelled("signer", signer), ...(count ? [] : [labelled("sentence", text)])];
  return element("li", {},
    element("p", { class: "soft", text: state }),
    element("div", { class: "fields" }, ...fields), row, place, line);
}

async function begin() {
  if (!start.piece) start = await ask("GET", "/api/start");
}

async function show() {
  const name = tabs[location.hash.slice(1)] ? location.hash.slice(1) : "record";
  for (const other of Object.keys(tabs)) $(`#${other}`).hidden = other !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name !== "translate") endLive();
  if (!["record", "translate"].includes(name)) closeCamera();
  await guarded(async () => {
    await begin();
    await tabs[name]();
  })();
}

// --- buttons ---------------------------------------------------------------------------------------------

const isTranslating = () => !$("#translate").hidden;

on("#next", "click", nextPrompt);

on("#go", "click", async () => {
  const signer = isTranslating() ? "" : $("#signer").value.trim();
  const text = isTranslating() ? "" : $("#sentence").value.trim();
  if (!isTranslating()) {
    if (!signer || !text) throw new Error(say("name_first"));
    if (!(await consentOf(signer))) return;
  }
  $("#taken").hidden = $("#answer").hidden = true;
  try {
    await beginRecording(text, signer);
  } catch (error) {
    $("#go").hidden = false;
    throw error;
  }
});

on("#stop", "click", async () => {
  const [take, look] = await endRecording();
  current = take;
  const place = isTranslating() ? $("#answer") : $("#taken");
  place.hidden = false;
  drawLook($(".look", place), take, look);
  if (place.id === "taken") {
    showTake(true);
    $("#keep").focus();
  }
  place.scrollIntoView({ block: "nearest" });
});

// A take stands where the camera was, so that who is two metres away sees what is to be decided.
function showTake(isTaken) {
  $("#taken").hidden = !isTaken;
  $("#camera").hidden = isTaken;
}

on("#keep", "click", async () => {
  showTake(false);
  $("#go").focus();
  nextPrompt();
});

on("#again", "click", async () => {
  await ask("DELETE", `/api/takes/${current.id}`);
  showTake(false);
  $("#go").focus();
});

// A translation that is not right becomes a clip to be labelled, its text the hypothesis.
on("#wrong", "click", async () => {
  const said = $("#answer > .said")?.textContent ?? "";
  await ask("PATCH", `/api/takes/${current.id}`, { text: said });
  location.hash = "clips";
});

// A film whose sending was cut off goes on where the bytes on the server end, when it comes again.
async function sendFilm(file, suffix) {
  const key = `upload ${file.name} ${file.size} ${file.lastModified}`;
  const begun = (one) => one.id === localStorage.getItem(key) && one.state === "recording";
  const asked = { signer: $("#signer").value, suffix, name: file.name };
  const { id, bytes = 0 } = (await ask("GET", "/api/takes")).find(begun) ?? await ask("POST", "/api/takes", asked);
  localStorage.setItem(key, id);
  const upload = new Sender(id, bytes);
  upload.add(file.slice(bytes));
  await upload.finish();
  localStorage.removeItem(key);
}

// Films first: captions, texts and tables are of films that are here.
async function takeFiles(files) {
  await begin(); // what a film is
  const suffixOf = (file) => file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
  const isFilm = (file) => start.videos.includes(suffixOf(file));
  const said = [];
  let isWrong = false;
  for (const file of [...files].sort((one, other) => isFilm(other) - isFilm(one))) {
    tell(`${say("saving")} ${file.name}`);
    try {
      if (isFilm(file)) {
        await sendFilm(file, suffixOf(file));
      } else {
        const found = await ask("POST", `/api/labels?name=${encodeURIComponent(file.name)}`, file);
        said.push(`${file.name}: ${say("labelled", { count: found.takes.length })}`, ...found.left.map(inWords));
        isWrong ||= found.left.length > 0;
      }
    } catch (error) {
      isWrong = true;
      said.push(`${file.name}: ${error.message}`);
    }
  }
  await tabs.clips();
  tell(said.join("\n"), isWrong);
}

on("#files", "change", async (event) => {
  await takeFiles(event.target.files);
  event.target.value = "";
});

for (const name of ["dragover", "drop"]) on("#clips .drop", name, (event) => event.preventDefault());
on("#clips .drop", "drop", (event) => takeFiles(event.dataTransfer.files));

on("#live", "click", async () => {
  if (live) { endLive(); return; }
  await openCamera();
  const { id } = await ask("POST", "/api/live", {});
  live = new LiveSession(id);
  $("#live").ariaPressed = "true";
  $("#live").textContent = say("live_end");
});

on("#deliver", "click", async () => {
  const done = await ask("POST", "/api/deliver", {});
  await tabs.clips();
  const left = Object.values(done.left).map(inWords).join("\n");
  const taken = done.refused ? `${say("not_taken")} ${inWords(done.refused)}` : say("taken");
  const next = done.founded ? taken : say("found_next");
  const said = done.takes.length ? `${say("delivered", { count: done.takes.length })} ${next}` : say("nothing");
  tell(`${said}\n${left}`, Boolean(done.refused || left || !done.takes.length));
});

document.addEventListener("keydown", (event) => {
  const isTyping = ["INPUT", "TEXTAREA", "SELECT", "BUTTON", "A"].includes(event.target.tagName);
  if (event.key !== " " || isTyping || $("#camera").hidden) return;
  event.preventDefault();
  ($("#stop").hidden ? $("#go") : $("#stop")).click();
});

const wish = localStorage.getItem("language") ?? navigator.language.slice(0, 2);
speak(texts[wish] ? wish : "en");
window.addEventListener("hashchange", show); // no tab before what they need is there
await show();
