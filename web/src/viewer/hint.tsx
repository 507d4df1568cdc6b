// Empty states and error messages of panels.

import type { ComponentChildren } from "preact";
import { Icon } from "../graph/icons";

export function Hint({ title, children, isQuiet = false }: { title: string; children?: ComponentChildren; isQuiet?: boolean }) {
  return (
    <div class={`blank${isQuiet ? " loading" : ""}`} role="status">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** An error panel with the message of the server. */
export function Failure({ what, error, children }: { what: string; error: string; children?: ComponentChildren }) {
  return (
    <div class="blank failed" role="alert">
      <h2><Icon name="warn" /> {what} cannot be shown</h2>
      <p>{error}</p>
      {children}
    </div>
  );
}
