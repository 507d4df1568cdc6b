/** The theme of the canvas: colors read from CSS variables, and tones mixed from them. */

import { luminance, mix, parse, withAlpha } from "../color";

export interface Theme {
  readonly isDark: boolean;
  readonly mono: string;
  readonly paper: string;
  readonly panel: string;
  readonly ink: string;
  readonly soft: string;
  readonly accent: string;
  readonly bad: string;
  readonly ok: string;
  readonly amber: string;
  readonly plum: string;
  readonly input: string;
  readonly param: string;
  readonly value: string;
  readonly target: string;
  readonly loss: string;
  readonly yellow: string;
  readonly gold: string;
  readonly gray: string;
  /** Of boxes. */
  readonly outline: string;
  readonly edge: string;
  /** Laid over what is below by each frame, so that inner frames stand out from outer ones. */
  readonly veil: string;
  readonly frame: string;
}

const LIGHT = {
  bg: "#f7f7f5", panel: "#ffffff", ink: "#1d1f23", soft: "#6b7078", a: "#3366cc", b: "#d9822b", bad: "#c8324b",
  ok: "#2e8b57", input: "#4c9f70", param: "#c9a227", value: "#7a86b8",
  target: "#2a8c8c", loss: "#b5489a",
};
const DARK: typeof LIGHT = {
  ...LIGHT, bg: "#14161a", panel: "#1b1e24", ink: "#e7e8ea", soft: "#9aa0a9", a: "#7aa2f7", b: "#f0a35e",
  bad: "#f0718a", ok: "#63c08a", value: "#98a4d8", target: "#4db8b8", loss: "#d977c0",
};
const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** Read the CSS variables around the canvas; where there are none, a light or dark set of its own. */
export function readTheme(host: HTMLElement): Theme {
  const style = getComputedStyle(host);
  const given = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const probe = document.createElement("canvas").getContext("2d")!;
  const named = (name: string): string | null => {
    const value = given(name);
    if (!value) return null;
    probe.fillStyle = "#010203"; // stays if the browser cannot read the value
    probe.fillStyle = value;
    return probe.fillStyle !== "#010203" && parse(probe.fillStyle) ? probe.fillStyle : null;
  };
  const ground = named("bg");
  const isDark = ground ? luminance(ground) < 0.2 : matchMedia("(prefers-color-scheme: dark)").matches;
  const own = isDark ? DARK : LIGHT;
  const tokens = Object.fromEntries(Object.entries(own).map(([name, value]) => [name, named(name) ?? value]));
  return themeOf(tokens as typeof LIGHT, isDark, given("mono") || MONO);
}

/** All tones from the few colors of the page. */
export function themeOf(tokens: typeof LIGHT, isDark: boolean, mono = MONO): Theme {
  const { bg, panel, ink, soft, a, b, bad, ok, input, param, value, target, loss } = tokens;
  return {
    isDark, mono, paper: bg, panel, ink, soft, accent: a, bad, ok, amber: b, input, param, value, target, loss,
    plum: isDark ? "#dc96e0" : "#8a3b8f",
    yellow: isDark ? "#5c4b08" : "#ffe58a",
    gold: isDark ? "#f2c83a" : "#a67c00",
    gray: mix(soft, panel, isDark ? 0.3 : 0.22),
    outline: mix(soft, panel, isDark ? 0.55 : 0.5),
    edge: mix(soft, bg, isDark ? 0.7 : 0.75),
    veil: isDark ? "rgba(150,175,215,0.055)" : "rgba(70,80,70,0.038)",
    frame: withAlpha(soft, isDark ? 0.38 : 0.3),
  };
}

const tones = new WeakMap<Theme, string[]>();

/** The ground in a frame, at a depth of frames within frames. */
export function toneAt(theme: Theme, depth: number): string {
  let known = tones.get(theme);
  if (!known) tones.set(theme, (known = []));
  const veil = parse(theme.veil)!;
  return (known[depth] ??= mix(theme.paper, withAlpha(theme.veil, 1), (1 - veil.a) ** depth));
}

export const LIGHT_THEME = themeOf(LIGHT, false);
export const DARK_THEME = themeOf(DARK, true);

/** Calls back when the page turns dark or light. Returns a function that stops. */
export function watchTheme(host: HTMLElement, changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  const filter = { attributes: true, attributeFilter: ["class", "style", "data-theme", "theme", "data-jp-theme-light", "data-vscode-theme-kind"] };
  for (let element: Element | null = host.parentElement; element; element = element.parentElement) observer.observe(element, filter);
  const root = host.getRootNode();
  if (root instanceof ShadowRoot) observer.observe(root.host, filter);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}
