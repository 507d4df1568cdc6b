// Tests of theme.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { themeAround } from "./theme";

const element = (attributes: Record<string, string> = {}): Element =>
  ({
    getAttribute: (name: string) => attributes[name] ?? null,
    classList: (attributes.class ?? "").split(" ").filter(Boolean),
  }) as unknown as Element;

const cases: [string, Element, Element, string | null][] = [
  ["JupyterLab, dark", element(), element({ "data-jp-theme-light": "false", class: "light" }), "dark"],
  ["JupyterLab, light", element(), element({ "data-jp-theme-light": "true" }), "light"],
  ["VS Code, dark", element(), element({ "data-vscode-theme-kind": "vscode-dark" }), "dark"],
  ["VS Code, high contrast light", element(), element({ "data-vscode-theme-kind": "vscode-high-contrast-light" }), "light"],
  ["VS Code, high contrast", element(), element({ "data-vscode-theme-kind": "vscode-high-contrast" }), "dark"],
  ["Colab, dark", element({ theme: "dark" }), element(), "dark"],
  ["marimo, dark", element({ class: "dark" }), element({ class: "dark dark-theme" }), "dark"],
  ["marimo, light", element({ class: "light" }), element({ class: "light light-theme" }), "light"],
  ["a page that says nothing", element(), element({ class: "highlight darkroom" }), null],
];

for (const [name, html, body, theme] of cases) {
  test(`the theme of ${name} is ${theme ?? "left to the system"}`, () => assert.equal(themeAround(html, body), theme));
}
