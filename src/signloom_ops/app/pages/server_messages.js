// What the server says is English; here it is put into the language of the page, by templates.

const messages = await (await fetch("/server_messages.json")).json();
const languages = ["fr", "de", "en"]; // English only where it is said otherwise to people

const rules = Object.entries(messages).map(([template, said]) => {
  const names = [];
  const pattern = template.split(/(\{\w+\})/).map((part) => {
    if (!/^\{\w+\}$/.test(part)) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    names.push(part.slice(1, -1));
    return "(.+?)";
  }).join("");
  return { names, said, known: template.length - names.join("").length, pattern: new RegExp(`^${pattern}$`) };
}).sort((one, other) => other.known - one.known); // the most exact first

function whole(text, which) {
  for (const { names, said, pattern } of rules) {
    const found = pattern.exec(text);
    if (!found || !said[which]) continue;
    const values = Object.fromEntries(names.map((name, n) => [name, translate(found[n + 1], which)]));
    return said[which].replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  }
  return null;
}

function translate(text, which) {
  return whole(text, which) ?? (text.includes("; ")
    ? text.split("; ").map((part) => whole(part, which) ?? part).join("; ") : text);
}

// Return what the server said in the language of the page; what no template knows stays English.
export function inWords(text) {
  const which = languages.indexOf(document.documentElement.lang);
  const lines = String(text).replaceAll("`", "").split("\n");
  return lines.map((line) => translate(line, which)).join("\n");
}
