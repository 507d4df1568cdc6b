// Text with tokens colored by a channel, with a channel selector and a readout.

import { useMemo, useState } from "preact/hooks";
import { Menu, Segments } from "../graph/controls";
import { gradient } from "../lib/colors";
import { ChannelList, strongestChannel, STRONGEST, strongestAt } from "./strongest-channel";
import { useLinkedChannel } from "./linked-channels";
import { scaleEndNumber, exactNumber } from "./numbers";
import { rampOf } from "./colors";
import { tipPlace, Tip, type TipPlace } from "./tooltip";
import { initialTextCount, visibleToken } from "./tokens";
import type { ColoredText, Text } from "./wire";
import { TokenText } from "./token-text";

/** Up to this many channels are buttons; more are in a menu. */
const FEW = 5;
const MOST_LETTERS = 70;
/** Maximum number of channels in the readout of a token; with more, only the selected one. */
const MOST_READ = 8;
const ALL = "all";

interface At {
  readonly text: number;
  readonly token: number;
  readonly channel: number;
  readonly tip: TipPlace;
}

export function ColoredTextBlock({ block, isDark }: { block: ColoredText; isDark: boolean }) {
  const { channels, texts } = block;
  const [{ kept: last, preview }, show] = useLinkedChannel(block.link, block.shows_strongest ? STRONGEST : "0");
  const kept = Number(last) >= channels.length ? "0" : last; // another page may have fewer
  const chosen = preview ?? kept;
  const [isNumbered, setNumbered] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const [at, setAt] = useState<At | null>(null);
  const own = useMemo(() => (block.shows_strongest ? texts.map((text) => strongestChannel(block, text, chosen)) : []), [block, chosen]);
  if (!texts.length || !channels.length) return <p class="quiet">No text.</p>;
  const shown = chosen === ALL ? [...channels.keys()] : [chosen === STRONGEST ? -1 : Number(chosen)];
  const n = isWhole ? texts.length : initialTextCount(texts.map(({ tokens }) => tokens.length * shown.length));
  const isChoice = texts.some(({ chooses }) => chooses.length > 0);
  const setChosen = (value: string): void => show({ kept: value, preview: null });
  const look = (to: At | null): void => {
    setAt(to);
    if (!isChoice || kept === ALL) return; // one in the place of all would move the tokens away
    const own = to ? texts[to.text].chooses[to.token] ?? -1 : -1;
    show({ preview: own >= 0 ? String(own) : null });
  };
  const choose = (text: Text, token: number): void => {
    const own = text.chooses[token] ?? -1;
    if (own >= 0) setChosen(String(own));
  };
  return (
    <div class={`colored${block.shows_strongest ? " strongest" : ""}`} onPointerLeave={() => look(null)}>
      <div class="colored-bar">
        {channels.length > 1 && !block.shows_strongest && <Channels channels={channels} chosen={chosen} onChoose={setChosen} />}
        <button type="button" class="toggle" aria-pressed={isNumbered} title="Show the value below each token" onClick={() => setNumbered(!isNumbered)}>values</button>
        {chosen !== ALL && !block.shows_strongest && <Ramp most={block.most[Number(chosen)]} block={block} isDark={isDark} />}
      </div>
      {block.shows_strongest && <ChannelList block={block} chosen={kept} onChoose={setChosen} onPreview={(value) => show({ preview: value })} />}
      {texts.slice(0, n).map((text, place) => (
        <div class="colored-text" key={place}>
          {text.title && <div class="colored-title">{text.title}</div>}
          {shown.map((channel, line) => (
            <TokenText key={line} text={text} channel={channel} name={channels[channel] ?? "the strongest"} isNamed={chosen === ALL} most={block.most[channel] ?? 0}
              isSigned={block.is_signed} isShare={block.is_share} isChoice={isChoice} values={own[place]?.values ?? text.values[channel]} styles={own[place]?.styles}
              isDark={isDark} isNumbered={isNumbered} at={at?.text === place && (at.channel === channel || chosen !== ALL) ? at.token : -1}
              onAt={(token, element) => look(token < 0 || !element ? null : { text: place, token, channel, tip: placeOf(element) })}
              onChoose={(token) => choose(text, token)} />
          ))}
        </div>
      ))}
      {n < texts.length && <button type="button" class="button" onClick={() => setWhole(true)}>Show all {texts.length} texts</button>}
      <Tip at={at?.tip ?? null}>
        {at && <TokenReadout block={block} text={texts[at.text]} token={at.token} channel={chosen === ALL ? at.channel : shown[0]} kept={Number(kept)} isAlone={isChoice} />}
      </Tip>
    </div>
  );
}

function Channels({ channels, chosen, onChoose }: { channels: readonly string[]; chosen: string; onChoose(value: string): void }) {
  const isFew = channels.length <= FEW && channels.join("").length <= MOST_LETTERS;
  const own = channels.map((name, place) => [String(place), name] as const);
  if (!isFew) return <Menu name="Colored by" value={chosen} choices={channels.length <= 12 ? [...own, [ALL, "all, stacked"]] : own} onChoose={onChoose} />;
  const choices = own.map(([value, name]) => ({ value, text: name, title: `Color by ${name}` }));
  return <Segments name="Colored by" value={chosen} choices={[...choices, { value: ALL, text: "all", title: "All channels, stacked" }]} onChoose={onChoose} />;
}

function Ramp({ most, block, isDark }: { most: number; block: ColoredText; isDark: boolean }) {
  const { is_signed: isSigned, is_share: isShare } = block;
  if (!most) return <span class="block-ramp">zero everywhere</span>;
  return <span class="block-ramp">{isSigned ? scaleEndNumber(-most, isShare) : "0"}<i style={{ background: gradient(rampOf(isSigned, isDark)) }} />{scaleEndNumber(most, isShare)}</span>;
}

interface TokenReadoutProps {
  readonly block: ColoredText;
  readonly text: Text;
  readonly token: number;
  readonly channel: number;
  /** The channel selected before the hover; NaN if all are shown. */
  readonly kept: number;
  /** Whether the chosen channel alone is read. */
  readonly isAlone: boolean;
}

function TokenReadout({ block, text, token, channel, kept, isAlone }: TokenReadoutProps) {
  const first = channel < 0 ? strongestAt(text, token) : channel;
  const isTarget = first >= 0 && text.chooses[token] === first;
  const isPreview = isTarget && kept >= 0 && kept !== first;
  // A hovered target shows its value for the pinned channel.
  const own = isPreview ? kept : first;
  const others = isAlone || block.channels.length > MOST_READ && !block.shows_strongest ? [] : [...block.channels.keys()].filter((place) => place !== own).slice(0, MOST_READ - 1);
  const read = [...(own < 0 ? [] : [own]), ...others].filter((place) => text.values[place][token] !== null);
  return (
    <>
      <div class="tip-head"><q>{visibleToken(text.tokens[token])}</q> {token + 1} of {text.tokens.length}{isTarget && ", the target"}</div>
      {read.map((place) => (
        <div class={`tip-line${place === own ? " on" : ""}`} key={place}><span>{isAlone ? `for ${block.channels[place]}` : block.channels[place]}</span><b>{exactNumber(text.values[place][token], block.is_share)}</b></div>
      ))}
      {read.length === 0 && !isTarget && <div class="tip-line"><span>{block.missing}</span></div>}
      {isPreview && <div class="tip-line"><span>click to pin</span></div>}
    </>
  );
}

function placeOf(element: HTMLElement): TipPlace {
  return tipPlace(element.getBoundingClientRect(), element.closest<HTMLElement>(".colored")!.getBoundingClientRect(), innerHeight);
}
