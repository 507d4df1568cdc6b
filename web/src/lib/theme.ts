// Detects and follows the theme of the notebook around the page.

export type Theme = "light" | "dark";

/** The theme that the notebook declares; null if it declares none, so that the system preference applies. */
export function themeAround(html: Element, body: Element): Theme | null {
  const jupyter = body.getAttribute("data-jp-theme-light");
  if (jupyter !== null) return jupyter === "true" ? "light" : "dark";
  const code = body.getAttribute("data-vscode-theme-kind");
  if (code !== null) return code.includes("light") ? "light" : "dark";
  const words = [html.getAttribute("theme"), html.getAttribute("data-theme"), body.getAttribute("data-theme")];
  const classes = [...html.classList, ...body.classList];
  if (words.includes("dark") || classes.some((name) => /^(dark|dark-theme|dark-mode|vscode-dark)$/.test(name))) return "dark";
  if (words.includes("light") || classes.some((name) => /^(light|light-theme|vscode-light)$/.test(name))) return "light";
  return null;
}

/** Keep `data-theme` in sync with the notebook. Returns a function that stops. */
export function follow(root: HTMLElement): () => void {
  const { documentElement: html, body } = document;
  const take = () => {
    const theme = themeAround(html, body);
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  const observer = new MutationObserver(take);
  const attributes = ["class", "theme", "data-theme", "data-jp-theme-light", "data-vscode-theme-kind"];
  for (const element of [html, body]) observer.observe(element, { attributes: true, attributeFilter: attributes });
  take();
  return () => observer.disconnect();
}
