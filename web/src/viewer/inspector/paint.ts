// Image options of the inspector (scale, tile), stored in the URL.

import type { Paint } from "../data/api";

const [SCALE, TILE] = ["inspect.scale", "inspect.tile"];

export function paintOf(kept: Readonly<Record<string, string>>): Paint {
  const scale = kept[SCALE];
  return { scale: scale === "batch" || scale === "each" ? scale : "raw", tile: /^\d{1,9}$/.test(kept[TILE] ?? "") ? Number(kept[TILE]) : null };
}

export function keepScale(scale: Paint["scale"]): { do: "keep"; name: string; text: string } {
  return { do: "keep", name: SCALE, text: scale === "raw" ? "" : scale };
}

export function keepTile(tile: number | null): { do: "keep"; name: string; text: string } {
  return { do: "keep", name: TILE, text: tile === null ? "" : `${tile}` };
}
