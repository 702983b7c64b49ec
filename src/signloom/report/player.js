// Moves the skeletons: draws the lines that the page has through the points of each frame.
"use strict";

const ABSENT = 0xffff;
const STEPS = 20; // of a track's numbers in one SVG unit
const still = matchMedia("(prefers-reduced-motion: reduce)");

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

function pathThrough(track, start, marks) {
  let path = "";
  let pen = "M";
  for (const mark of marks) {
    const x = track[start + 2 * mark];
    if (x === ABSENT) {
      pen = "M"; // broken, not bridged, where a landmark is absent
    } else {
      path += pen + x / STEPS + " " + track[start + 2 * mark + 1] / STEPS;
      pen = "L";
    }
  }
  return path;
}

function placeCircle(circle, track, start, [low, high]) {
  const [left, top, right] = [2 * low, 2 * low + 1, 2 * high].map((place) => track[start + place]);
  const radius = (right - left) / 2 / STEPS;
  circle.setAttribute("visibility", left === ABSENT ? "hidden" : "visible");
  circle.setAttribute("cx", left / STEPS + radius);
  circle.setAttribute("cy", top / STEPS + radius);
  circle.setAttribute("r", radius);
}

class Player {
  constructor(root) {
    this.root = root;
    this.fps = Number(root.dataset.fps);
    this.frameSize = 2 * Number(root.dataset.points);
    this.shapes = [...root.querySelectorAll("svg [data-marks]")].map((shape) => [
      shape, shape.dataset.marks.split(" ").map(Number),
    ]);
    this.button = root.querySelector("button");
    this.slider = root.querySelector("input");
    this.output = root.querySelector("output");
    this.frames = Number(this.slider.max) + 1;
    this.playheads = root.closest("article").querySelectorAll("[data-per-second]");
    this.isPlaying = false;
    this.isStopped = false; // by the reader, who alone may start it again
    this.button.addEventListener("click", () => {
      this.isStopped = this.isPlaying;
      this.isPlaying ? this.pause() : this.play();
    });
    this.slider.addEventListener("input", () => {
      this.isStopped = true;
      this.pause();
      this.show(Number(this.slider.value));
    });
    root.querySelector(".controls").hidden = false;
  }

  show(frame) {
    this.track ??= unpack(this.root.dataset.track);
    for (const [shape, marks] of this.shapes) {
      const start = frame * this.frameSize;
      if (shape.localName === "circle") placeCircle(shape, this.track, start, marks);
      else shape.setAttribute("d", pathThrough(this.track, start, marks));
    }
    const seconds = frame / this.fps;
    this.slider.value = frame;
    this.output.value = seconds.toFixed(1) + " s";
    this.slider.setAttribute("aria-valuetext", seconds.toFixed(1) + " seconds");
    for (const line of this.playheads) {
      line.setAttribute("visibility", "visible");
      line.setAttribute("transform", `translate(${seconds * line.dataset.perSecond})`);
    }
  }

  play() {
    if (this.isPlaying) return;
    this.isPlaying = true;
    this.button.textContent = "Pause";
    const first = Number(this.slider.value) % (this.frames - 1 || 1);
    let begun;
    const step = (now) => {
      if (!this.isPlaying) return;
      begun ??= now;
      const frame = (first + Math.floor(((now - begun) / 1000) * this.fps)) % this.frames;
      if (frame !== Number(this.slider.value)) this.show(frame);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  pause() {
    this.isPlaying = false;
    this.button.textContent = "Play";
  }
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const player = players.get(target);
      if (!isIntersecting) player.pause();
      else if (!still.matches && !player.isStopped) player.play();
    }
  },
  { threshold: 0.6 },
);
const players = new Map();
for (const root of document.querySelectorAll(".player")) {
  players.set(root, new Player(root));
  seen.observe(root);
}
still.addEventListener("change", () => {
  if (still.matches) players.forEach((player) => player.pause());
});
