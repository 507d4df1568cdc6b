// A page: sections as cards, with navigation.

import { useRef, useState } from "preact/hooks";
import { IconButton } from "../graph/controls";
import { Logo } from "../graph/icons";
import { useTheme } from "../graph/hooks/use-theme";
import "../style/index.css";
import "../style/pages.css";
import { LinkedChannels, LinkedContext } from "./linked-channels";
import { BlockView } from "./block";
import type { Page, Section } from "./wire";

export function BlocksPage({ page }: { page: Page }) {
  const [element, setElement] = useState<HTMLElement | null>(null);
  const scroller = useRef<HTMLElement>(null);
  const { isDark, turn } = useTheme(element);
  return (
    <div class={`blocks${isDark ? " dark" : ""}`} ref={setElement}>
      <header class="header">
        <div class="logo" title="Cutaway"><Logo /><span>Cutaway</span></div>
        <h1 title={page.title}>{page.title}</h1>
        <BlocksNav page={page} scroller={() => scroller.current} />
        <div class="header-buttons"><IconButton icon="theme" title="Toggle dark mode" onClick={turn} /></div>
      </header>
      <main class="blocks-body" ref={scroller}>
        <BlocksBody page={page} isDark={isDark} />
      </main>
    </div>
  );
}

/** Navigation between sections. */
export function BlocksNav({ page, scroller }: { page: Page; scroller(): HTMLElement | null }) {
  if (page.sections.length < 2) return null;
  const goTo = (place: number): void => {
    const section = scroller()?.querySelectorAll<HTMLElement>(".block-section")[place];
    section?.scrollIntoView({ block: "start" });
    section?.focus({ preventScroll: true });
  };
  return (
    <nav class="blocks-nav" aria-label="Sections">
      {page.sections.map(({ title }, place) => <button type="button" key={place} onClick={() => goTo(place)}>{title}</button>)}
    </nav>
  );
}

/** The content below the title. */
export function BlocksBody({ page, isDark }: { page: Page; isDark: boolean }) {
  const [linked] = useState(() => new LinkedChannels());
  return (
    <LinkedContext.Provider value={linked}>
      {page.about && <p class="blocks-about">{page.about}</p>}
      <div class="blocks-grid">
        {page.sections.map((section, place) => <SectionView section={section} isDark={isDark} key={place} />)}
      </div>
    </LinkedContext.Provider>
  );
}

export function SectionView({ section, isDark }: { section: Section; isDark: boolean }) {
  return (
    <section class={`block-section${section.is_wide ? " wide" : ""}`} tabIndex={-1} aria-label={section.title}>
      <h2>{section.title}</h2>
      {section.about && <p class="section-about">{section.about}</p>}
      <div class={areCharts(section) ? "side-by-side" : ""}>
        {section.blocks.map((block, place) => <BlockView block={block} isDark={isDark} key={place} />)}
      </div>
    </section>
  );
}

/** Charts stand beside each other where there is room. */
function areCharts({ is_wide: isWide, blocks }: Section): boolean {
  return isWide && blocks.length > 1 && blocks.every(({ kind }) => ["lines", "bars", "histogram", "heatmap"].includes(kind));
}
