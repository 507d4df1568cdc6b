// Icons as inline SVG paths, so that no icon font is needed.

const PATHS = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  theme: "M8 2a6 6 0 1 0 0 12 6 6 0 0 0 0-12z",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M6 6h8v8H6zM10 6V2H2v8h4",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  left: "M10 4 6 8l4 4",
  right: "M6 4l4 4-4 4",
  panel: "M2 3h12v10H2zM10 3v10",
  warn: "M8 2 15 14H1zM8 6.5v4M8 12v.6",
  minus: "M4 8h8",
  plus: "M4 8h8M8 4v8",
  toDown: "M8 2v11M4 9l4 4 4-4",
  toRight: "M2 8h11M9 4l4 4-4 4",
  crosshair: "M8 1v4M8 11v4M1 8h4M11 8h4M8 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
      {name === "theme" && <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />}
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo-sign" viewBox="0 0 20 20" aria-hidden="true">
      <circle cx="10" cy="10" r="9" fill="none" stroke="currentColor" stroke-width="1.6" />
      <path d="M10 1a9 9 0 0 1 9 9h-9z" fill="var(--a)" />
    </svg>
  );
}
