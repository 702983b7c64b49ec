// The page that asks for the password.
import { inWords } from "/server_messages.js";

const texts = await (await fetch("/texts.json")).json();
document.documentElement.lang = navigator.language.slice(0, 2);
const words = texts[document.documentElement.lang] ?? texts.en;
for (const node of document.querySelectorAll("[data-t]")) node.textContent = words[node.dataset.t];

document.querySelector("#login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "x-signloom": "1" },
    body: JSON.stringify({ password: document.querySelector("#password").value }),
  });
  if (answer.ok) location.href = "/";
  else document.querySelector("#message").textContent = inWords((await answer.json()).error);
});
