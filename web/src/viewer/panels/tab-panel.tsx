// Container of one tab: created on first use, kept while hidden, with its own error boundary.
//
// Each tab has its own Preact root. If a part of a tree is skipped in a render, Preact keeps a reference to the previous
// tree, and with it everything that was on the page then: an hour of clicking would leak all of it.

import { Component, render, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Failure } from "../hint";

interface Props {
  readonly name: string;
  readonly isShown: boolean;
  readonly children: ComponentChildren;
}

export function TabPanel({ name, isShown, children }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const wasShown = useRef(false);
  wasShown.current ||= isShown;
  useLayoutEffect(() => {
    if (isShown) render(<ErrorBoundary name={name}>{children}</ErrorBoundary>, place.current!);
  });
  useLayoutEffect(() => {
    const own = place.current!;
    return () => render(null, own);
  }, []);
  return <div class={wasShown.current ? "tab-panel" : ""} role="tabpanel" aria-label={name} hidden={!isShown} ref={place} />;
}

interface BoundaryState {
  readonly error: string | null;
}

class ErrorBoundary extends Component<{ readonly name: string; readonly children: ComponentChildren }, BoundaryState> {
  state: BoundaryState = { error: null };

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { error: String(error instanceof Error ? error.message : error) };
  }

  componentDidCatch(error: unknown): void {
    console.error(error);
  }

  render() {
    const { name, children } = this.props;
    const { error } = this.state;
    if (error === null) return children;
    return (
      <Failure what={`The tab ${name}`} error={`Internal viewer error: ${error}`}>
        <button type="button" class="button" onClick={() => this.setState({ error: null })}>Try again</button>
      </Failure>
    );
  }
}
