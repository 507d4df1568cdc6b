// The header of the page: model, size, and the error of a failed forward pass.

import { FAILED } from "../lib/wire";
import { IconButton } from "./controls";
import { Icon, Logo } from "./icons";
import { usePage } from "./context";
import { Search } from "./search";

/** The facts that fit on one line; the inspector shows the others. */
const BRIEF = ["ops", "values", "parameters", "FLOPs", "time", "backward passes"];
const ONE: Readonly<Record<string, string>> = { ops: "op", "backward passes": "backward pass" };

function brief(facts: readonly (readonly [string, string])[]): [string, string][] {
  const known = new Map(facts);
  const [trainable, frozen] = [known.get("trainable"), known.get("frozen")];
  const parameters = frozen === "0" ? "trainable parameters" : trainable === "0" ? "frozen parameters" : `parameters, ${frozen} frozen`;
  return BRIEF.flatMap((name) => {
    const value = known.get(name);
    const shown = name === "parameters" ? parameters : value === "1" ? ONE[name] ?? name : name;
    return value && value !== "0" ? [[shown, value]] : [];
  });
}

interface Props {
  readonly isPanelOpen: boolean;
  onTheme(): void;
  onHelp(): void;
  onPanel(): void;
}

export function Header({ onTheme, onHelp, onPanel, isPanelOpen }: Props) {
  const { view } = usePage();
  return (
    <header class="header">
      <div class="logo" title="Cutaway"><Logo /><span>Cutaway</span></div>
      <div class="model" title={view.title}>{view.title}</div>
      <div class="facts">
        {brief(view.facts).map(([name, value]) => <span class="fact" key={name}><b>{value}</b> {name}</span>)}
      </div>
      <Search />
      <div class="header-buttons">
        <IconButton icon="theme" title="Toggle dark mode (t)" onClick={onTheme} />
        <button type="button" class="icon-button" title="Keyboard shortcuts and symbols (?)" aria-label="Help" onClick={onHelp}>?</button>
        <IconButton icon="panel" title={`${isPanelOpen ? "Hide" : "Show"} the inspector (i)`} isOn={isPanelOpen} onClick={onPanel} />
      </div>
    </header>
  );
}

/** The error that ended the trace, with a button that goes to the failed op. */
export function ErrorBanner() {
  const { view, go } = usePage();
  if (!view.error) return null;
  const failed = view.nodes.kind.findIndex((kind, node) => kind === "failed" || (view.nodes.flags[node] & FAILED) !== 0);
  return (
    <div class="banner" role="alert">
      <Icon name="warn" />
      <span class="banner-text">The forward pass failed here: <code>{view.error}</code></span>
      {failed >= 0 && <button type="button" class="button bad" onClick={() => go(`n${failed}`)}>Go to the failed op</button>}
    </div>
  );
}
