// The place of one tab. It is made when first looked at, then kept; while it is hidden it rests, and it falls alone.

import { Component, type ComponentChildren } from "preact";
import { Failure } from "./hint";

interface Props {
  readonly name: string;
  readonly isShown: boolean;
  readonly children: ComponentChildren;
}

interface Fallen {
  readonly error: string | null;
}

export class TabPanel extends Component<Props, Fallen> {
  state: Fallen = { error: null };
  private wasShown = false;

  static getDerivedStateFromError(error: unknown): Fallen {
    return { error: String(error instanceof Error ? error.message : error) };
  }

  componentDidCatch(error: unknown): void {
    console.error(error);
  }

  shouldComponentUpdate(next: Props, fallen: Fallen): boolean {
    return next.isShown || this.props.isShown || fallen !== this.state;
  }

  render({ name, isShown, children }: Props, { error }: Fallen) {
    this.wasShown ||= isShown;
    if (!this.wasShown) return null;
    return (
      <div class="tab-panel" role="tabpanel" aria-label={name} hidden={!isShown}>
        {error === null ? children : (
          <Failure what={`The tab ${name}`} error={`Something in this page went wrong: ${error}`}>
            <button type="button" class="button" onClick={() => this.setState({ error: null })}>Try again</button>
          </Failure>
        )}
      </div>
    );
  }
}
