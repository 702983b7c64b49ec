// When, from which commit and in which run the page was made stands in a file beside it: the page
// itself has no clock, so that equal files give equal bytes.
if (location.protocol === "file:") {
  const script = document.createElement("script");
  script.src = "made.js";
  script.onload = () => {
    for (const [name, value] of Object.entries(window.made)) {
      const isLink = value.startsWith("http");
      const text = document.createElement(isLink ? "a" : "span");
      text.textContent = isLink ? "open the run" : value;
      if (isLink) text.href = value;
      const place = document.querySelector("#made");
      place.append(document.createElement("dt"), document.createElement("dd"));
      place.lastChild.previousSibling.textContent = name;
      place.lastChild.append(text);
    }
  };
  document.head.append(script);
}
