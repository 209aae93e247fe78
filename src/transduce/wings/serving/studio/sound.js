// Recordings as WAV files of 16 bits, with as many samples a second as the model reads.

const USUAL = 16000; // samples a second for a model that does not say

// Records the microphone. The returned function stops, and returns the file. It needs no loudspeaker, as an AudioContext does.
export async function recorder(rate) {
  if (!navigator.mediaDevices) throw new Error("browsers allow it only over https, and on this machine.");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const made = new MediaRecorder(stream, { audioBitsPerSecond: 256_000 }), parts = [];
  made.addEventListener("dataavailable", ({ data }) => parts.push(data));
  made.start();
  return async () => {
    const stopped = new Promise((ready) => made.addEventListener("stop", ready));
    made.stop();
    await stopped;
    stream.getTracks().forEach((track) => track.stop());
    return decoded(new Blob(parts), rate ?? USUAL);
  };
}

// The file itself if it is a WAV file with this rate, or if the browser cannot decode it; otherwise a converted one.
export async function converted(file, rate) {
  if (!rate || (await rateOf(file)) === rate) return file;
  return decoded(file, rate).catch(() => file); // the server says what is wrong
}

async function decoded(file, rate) {
  const sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await file.arrayBuffer());
  return wav(await mono(sound, rate), rate);
}

// The samples a second of a WAV file; null for other files.
async function rateOf(file) {
  const head = new DataView(await file.slice(0, 28).arrayBuffer());
  return head.byteLength === 28 && head.getUint32(0) === 0x52494646 ? head.getUint32(24, true) : null;
}

// The samples of a sound with its channels mixed, in one part.
async function mono(buffer, rate) {
  const context = new OfflineAudioContext(1, Math.ceil(buffer.duration * rate), rate);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(context.destination);
  source.start();
  return [(await context.startRendering()).getChannelData(0)];
}

export function wav(parts, rate) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, letters) => [...letters].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(at, 32767 * Math.max(-1, Math.min(1, sample)), true);
      at += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}
