// When, from which commit and in which run the page was made stands in a file beside it: the page
// itself has no clock, so that equal files give equal bytes. DVC may bring back an older page than
// that file is of: then it is of other weights, and nothing of it is shown.
if (location.protocol === "file:") {
  const script = document.createElement("script");
  script.src = "made.js";
  script.onload = () => {
    const place = document.querySelector("#made");
    const { weights, ...made } = window.made;
    if (weights !== place.dataset.for) return;
    for (const [name, value] of Object.entries(made)) {
      const isLink = value.startsWith("http");
      const text = document.createElement(isLink ? "a" : "span");
      text.textContent = isLink ? "open the run" : value;
      if (isLink) text.href = value;
      place.append(document.createElement("dt"), document.createElement("dd"));
      place.lastChild.previousSibling.textContent = name;
      place.lastChild.append(text);
    }
  };
  document.head.append(script);
}
