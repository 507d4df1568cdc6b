// Light or dark: by system preference, notebook theme or user choice.

import { useEffect, useState } from "preact/hooks";

/** Whether the theme around an element is dark, and a function that toggles it. */
export function useTheme(element: HTMLElement | null): { isDark: boolean; turn(): void } {
  const root = element?.closest<HTMLElement>(".cutaway") ?? null;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = (): boolean => (root?.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const [isDark, setDark] = useState(read);
  useEffect(() => {
    if (!root) return undefined;
    const take = (): void => setDark(read());
    const observer = new MutationObserver(take);
    observer.observe(root, { attributes: true, attributeFilter: ["data-theme"] });
    system.addEventListener("change", take);
    take();
    return () => {
      observer.disconnect();
      system.removeEventListener("change", take);
    };
  }, [root]);
  const turn = (): void => {
    if (root) root.dataset.theme = read() ? "light" : "dark";
  };
  return { isDark, turn };
}
