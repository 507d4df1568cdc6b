// Entry point of the bundle. A notebook calls `render` (anywidget); a page with embedded data or served by the viewer mounts itself.
//
// All of it lives in one element of class "cutaway", and every selector of the style sheet begins with it: in a notebook
// the page belongs to somebody else. `data-theme` on that element ("light", "dark", or absent: as the system prefers).

import { render as mount } from "preact";
import { decodeBase64, embeddedHost, inflate, kernelHost, type Host, type Model } from "./lib/host";
import { follow } from "./lib/theme";
import { Shell, type View } from "./shell";
import { makeClient } from "./viewer/data/client";
import { restoreTheme, Viewer } from "./viewer/viewer";

/** The bundled style sheet, inserted by the build. */
const STYLE = "__CUTAWAY_STYLE__";
const DATA = "cutaway-data";

function addStyle(around: Document | ShadowRoot): void {
  const place = around instanceof Document ? around.head : around;
  if (place.querySelector("style[data-cutaway]")) return;
  const style = document.createElement("style");
  style.dataset.cutaway = "";
  style.textContent = STYLE;
  place.append(style);
}

function picture(root: HTMLElement, views: View[], hosts: Host[]): void {
  mount(<Shell views={views} hosts={hosts} />, root);
}

/** anywidget entry: the trait "views" holds the compressed views; details are requested by message. */
async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  const root = document.createElement("div");
  root.className = "cutaway cutaway-notebook";
  el.append(root);
  const around = el.getRootNode();
  addStyle(around instanceof ShadowRoot ? around : document);
  const unfollow = follow(root);
  const draw = async () => {
    const state = model.get("views") as BufferSource | string;
    const views = JSON.parse(await inflate(typeof state === "string" ? decodeBase64(state) : state)) as View[];
    picture(root, views, views.map((_, index) => kernelHost(model, index)));
  };
  const redraw = () => void draw();
  model.on("change:views", redraw);
  await draw();
  return () => {
    model.off("change:views", redraw);
    unfollow();
    mount(null, root);
  };
}

async function open(data: Element): Promise<void> {
  const root = document.getElementById("cutaway") ?? document.body.appendChild(document.createElement("div"));
  root.className = "cutaway cutaway-page";
  addStyle(document);
  try {
    const views = JSON.parse(await inflate(decodeBase64(data.textContent ?? ""))) as View[];
    data.remove(); // megabytes of text that nobody needs again
    picture(root, views, views.map((_, index) => embeddedHost((chunk) => take(`cutaway-details-${index}-${chunk}`))));
  } catch (error) {
    root.textContent = `Could not open this page: ${error}. It needs a browser from 2023 or later.`;
    throw error;
  }
}

/** The text of an element, which is then removed to free memory. */
function take(id: string): string | null {
  const element = document.getElementById(id);
  element?.remove();
  return element?.textContent ?? null;
}

/** The page of the viewer, which loads its data from the server. */
function view(root: HTMLElement): void {
  root.className = "cutaway cutaway-page";
  addStyle(document);
  restoreTheme(root);
  mount(<Viewer client={makeClient()} />, root);
}

if (typeof document !== "undefined") {
  const data = document.getElementById(DATA);
  const root = document.querySelector<HTMLElement>("#cutaway[data-viewer]");
  if (data) void open(data);
  else if (root) view(root);
}

export default { render };
