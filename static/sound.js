/**
 * One sound at a time for alerts, none unless it was asked for: a chime of our own, or somebody's file. A sound that
 * is still there after some seconds is cut, and alerts that come meanwhile have none.
 */

/** The longest that a sound lasts, in milliseconds. */
const MOST = 6_000;

/** What may be asked for: a word, a path of this host, or an https address. */
export function soundOf(wish) {
  if (wish === "chime") return wish;
  try {
    const url = new URL(wish, location.href);
    if (url.origin === location.origin || url.protocol === "https:") return url.href;
  } catch {
    // The caller says so.
  }
  return null;
}

export class Sound {
  #until = 0;
  #audio = null;
  #context = null;

  /** `wish` is what `soundOf` gave; `volume` 0 to 1. */
  constructor(wish, volume) {
    Object.assign(this, { wish, volume });
  }

  /** Plays, unless something plays already. */
  play(now) {
    if (now < this.#until) return false;
    this.#until = now + MOST;
    // A browser that wants a gesture first stays silent; a source of OBS needs none.
    const done = () => (this.#until = 0);
    if (this.wish === "chime") this.#chime(done);
    else this.#file(done);
    return true;
  }

  /** Silence, at once. */
  stop() {
    this.#audio?.pause();
    void this.#context?.suspend();
    this.#until = 0;
  }

  #file(done) {
    this.#audio ??= new Audio(this.wish);
    const audio = this.#audio;
    audio.volume = this.volume;
    audio.currentTime = 0;
    audio.onended = done;
    audio.onerror = done;
    audio.play().then(() => setTimeout(() => audio.pause(), MOST), done);
  }

  #chime(done) {
    const Context = globalThis.AudioContext;
    if (!Context) return done();
    this.#context ??= new Context();
    const context = this.#context;
    void context.resume().catch(done);
    [880, 1318.5].forEach((pitch, n) => {
      const at = context.currentTime + n * 0.14;
      const [tone, gain] = [context.createOscillator(), context.createGain()];
      tone.frequency.value = pitch;
      gain.gain.setValueAtTime(0, at);
      gain.gain.linearRampToValueAtTime(this.volume * 0.5, at + 0.02);
      gain.gain.exponentialRampToValueAtTime(0.0001, at + 0.7);
      tone.connect(gain).connect(context.destination);
      tone.start(at);
      tone.stop(at + 0.75);
      if (n === 1) tone.onended = done;
    });
    setTimeout(done, 1_500);
  }
}
