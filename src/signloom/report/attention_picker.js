// Shows the attention of the layer and head that the reader picks, in place of the mean.
"use strict";

const SHADES = 16; // as many as the picture of the mean has

class AttentionPart {
  constructor(root) {
    this.root = root;
    const { layers, heads, rows, columns } = root.dataset;
    [this.layers, this.heads, this.rows, this.columns] = [layers, heads, rows, columns].map(Number);
    this.group = root.querySelector("svg > g[transform*=scale]");
    this.mean = [...this.group.childNodes];
    this.strongest = root.dataset.strongest.split(" ").map(Number);
  }

  // Returns the mean over the given layers and heads, in per cent.
  weights(layers, heads) {
    const size = this.rows * this.columns;
    const sum = new Float64Array(size);
    for (const layer of layers) {
      for (const head of heads) {
        const map = layer * this.heads + head;
        const step = this.strongest[map] / SHADES / (layers.length * heads.length);
        for (let cell = 0; cell < size; cell++) {
          sum[cell] += parseInt(this.root.dataset.cells[map * size + cell], SHADES + 1) * step;
        }
      }
    }
    return sum;
  }

  draw(weights) {
    const most = Math.max(...weights) || 1;
    const paths = Array(SHADES + 1).fill("");
    weights.forEach((weight, cell) => {
      const row = Math.floor(cell / this.columns);
      paths[Math.round((weight / most) * SHADES)] += `M${cell % this.columns} ${row}h1v1h-1z`;
    });
    this.group.replaceChildren(
      ...paths.slice(1).map((path, level) => {
        const shade = document.createElementNS("http://www.w3.org/2000/svg", "path");
        shade.setAttribute("d", path);
        shade.setAttribute("fill", "var(--blue)");
        shade.setAttribute("fill-opacity", (level + 1) / SHADES);
        return shade;
      }),
    );
  }
}

class Picker {
  constructor(root) {
    this.parts = [...root.querySelectorAll(".part")].map((part) => new AttentionPart(part));
    [this.part, this.layer, this.head] = root.querySelectorAll("select");
    this.output = root.querySelector("output");
    this.part.addEventListener("change", () => this.showPart());
    this.layer.addEventListener("change", () => this.show());
    this.head.addEventListener("change", () => this.show());
    root.querySelector(".controls").hidden = false;
    this.showPart();
  }

  showPart() {
    const chosen = this.parts[this.part.selectedIndex];
    for (const part of this.parts) part.root.hidden = part !== chosen;
    for (const [select, count] of [[this.layer, chosen.layers], [this.head, chosen.heads]]) {
      const before = select.selectedIndex;
      const names = ["mean", ...Array.from({ length: count }, (_, number) => String(number + 1))];
      select.replaceChildren(...names.map((name) => new Option(name)));
      select.selectedIndex = before > 0 && before < names.length ? before : 0;
    }
    this.show();
  }

  show() {
    const part = this.parts[this.part.selectedIndex];
    const [layers, heads] = [[this.layer, part.layers], [this.head, part.heads]].map(
      ([select, count]) => (select.selectedIndex ? [select.selectedIndex - 1] : [...Array(count).keys()]),
    );
    const weights = part.weights(layers, heads);
    if (this.layer.selectedIndex || this.head.selectedIndex) part.draw(weights);
    else part.group.replaceChildren(...part.mean);
    this.output.value = `strongest ${Math.max(...weights).toFixed(0)} %`;
  }
}

for (const root of document.querySelectorAll(".picker")) new Picker(root);
