// Clips of the corpus: their films, or where there are none, or none that this browser plays, their
// landmarks; and the signs that are nearest to a recording.

// Draw the bones of a frame, and every point that no bone reaches. `place` gives pixels of a point.
export function drawBones(pen, frame, bones, place) {
  pen.strokeStyle = pen.fillStyle = "#ffd84d";
  pen.lineWidth = 2;
  const joined = new Set(bones.flat());
  for (const bone of bones) {
    pen.beginPath();
    for (const [at, number] of bone.entries()) {
      const point = frame[number];
      if (!point) continue;
      if (at && frame[bone[at - 1]]) pen.lineTo(...place(point));
      else pen.moveTo(...place(point));
    }
    pen.stroke();
  }
  for (const [number, point] of frame.entries()) {
    if (!point || joined.has(number)) continue;
    pen.beginPath();
    pen.arc(...place(point), 2, 0, 7);
    pen.fill();
  }
}

export function makeClips({ ask, element, guarded, say, tell }) {
  async function playPoints(place, clipId) {
    const { fps, frames, bones, ratio } = await ask("GET", `/api/skeleton?clip=${encodeURIComponent(clipId)}`);
    const canvas = element("canvas", { width: 640, height: Math.round(640 / ratio), role: "img" });
    canvas.ariaLabel = say("points");
    const pen = canvas.getContext("2d");
    const draw = (frame) => {
      pen.clearRect(0, 0, canvas.width, canvas.height);
      const place = ([x, y]) => [(x * canvas.width) / 1000, (y * canvas.height) / 1000];
      drawBones(pen, frame ?? [], bones, place);
    };
    let begun = 0;
    const step = (now) => {
      const frame = Math.floor(((now - begun) / 1000) * fps);
      draw(frames[Math.min(frame, frames.length - 1)]);
      if (frame < frames.length && canvas.isConnected) requestAnimationFrame(step);
    };
    const play = element("button", { type: "button", text: say("play") });
    play.addEventListener("click", () => { begun = performance.now(); requestAnimationFrame(step); });
    place.replaceChildren(element("div", { class: "stage points" }, canvas), play);
    draw(frames[0]);
  }

  // Show a clip: `film` is an address, or empty. Of recordings there are no landmarks to show instead.
  async function showClip(place, { clip_id: clipId, film, is_recording: isRecording }) {
    const points = () => playPoints(place, clipId).catch((error) => tell(error.message, true));
    if (!film) return points();
    const video = element("video", { src: film, controls: "", playsinline: "", muted: "" });
    if (!isRecording) video.addEventListener("error", points, { once: true });
    place.replaceChildren(element("div", { class: "player" }, video));
  }

  // A button that lists what a recording may be.
  function drawLookup(place, take) {
    const button = element("button", { text: say("which_sign") });
    const list = element("ol", { class: "takes", "aria-live": "polite" });
    button.addEventListener("click", guarded(async () => {
      button.disabled = true;
      try {
        const { signs } = await ask("POST", `/api/takes/${take.id}/signs`, {});
        list.replaceChildren(...signs.map((sign) => {
          const clip = element("div");
          const show = element("button", { text: say("watch_sign") });
          show.setAttribute("aria-label", `${say("watch_sign")}: ${sign.text}`);
          show.addEventListener("click", guarded(() => showClip(clip, sign)));
          const from = sign.is_recording ? say("your_recording") : sign.clip_id;
          return element("li", {}, element("strong", { text: sign.text, dir: "auto" }),
            element("p", { class: "soft", text: `${sign.similarity.toFixed(2)} · ${from}` }), show, clip);
        }));
      } finally {
        button.disabled = false;
      }
    }));
    place.append(element("div", {}, button, list));
  }

  return { showClip, drawLookup };
}
